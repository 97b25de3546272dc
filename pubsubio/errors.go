package pubsubio

import "github.com/beam-brokers/beam-brokers/internal/options"

// An OptionError is one mistake in the options or the Connection of a transform.
// TryRead, TryWrite, ReadFromMap and WriteFromMap join all of them, so
// errors.As finds the first and OptionErrors all. Correct the option that Key
// names; Legal says to what, and Nearest what was probably meant.
type OptionError = options.Error

// OptionErrors takes the error of a Try or FromMap function apart into the
// mistakes it joins, in order.
func OptionErrors(err error) []*OptionError { return options.Errors(err) }
