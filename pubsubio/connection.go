package pubsubio

// A Connection says where Pub/Sub is and who asks. It travels to the workers
// as it is; credentials travel as references only.
type Connection struct {
	// ProjectID is the Google Cloud project of ids that are not full names.
	ProjectID string
	// CredentialsFile is the path, on the worker, of a credentials JSON file
	// (service account, authorized user, external account, impersonation).
	// Empty means Application Default Credentials.
	CredentialsFile string
	// EmulatorHost is the host:port of an emulator. It is spoken to in plain
	// text and without credentials; the PUBSUB_EMULATOR_HOST variable is not
	// consulted when it is set.
	EmulatorHost string
	// Endpoint is another service address (regional or private), host:port.
	// Empty means the default.
	Endpoint string
}
