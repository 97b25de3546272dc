package conformance

// Harness is what a connector supplies.
type Harness interface{}

// Features says what a connector on one broker can do.
type Features struct{}
