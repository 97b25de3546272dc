// Package realbrokers starts real brokers on loopback for integration tests.
// Each function returns ErrNotInstalled, wrapped with a plain word, where its
// broker cannot be had, so that a test can skip itself.
//
// The package is experimental: names may change until version 1.
package realbrokers

import "errors"

// ErrNotInstalled says that the broker's software is not on this machine.
var ErrNotInstalled = errors.New("broker not installed")
