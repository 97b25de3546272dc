// Package bridge moves messages from one broker to another: what pipelines/bridge
// runs as a command, and what the demo and the checks call.
//
// A message is read, mapped to a Record, mapped to the other side's message and
// written, all in one fused stage where the runner is Prism, so that a message
// is settled at its source only when its outcome is Published or its dead letter
// was written.
//
// The files follow a start of the command: command.go (subcommands, exit codes),
// flags.go and file.go (where a Config comes from), config.go and system.go (what
// it may hold), pipeline.go, outcome.go and boundary.go (the pipeline), job.go
// (run), progress.go and http.go (what is seen).
// pubsub.go is the one entry of the table of systems that Pub/Sub needs.
package bridge
