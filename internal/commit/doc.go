// Package commit tells a source what became of each bundle it emitted into:
// committed, failed or never heard of again.
//
// A source calls Register inside ProcessElement and hands in one function; that
// function is called exactly once, from a goroutine of this package, with the
// bundle's Outcome.
package commit
