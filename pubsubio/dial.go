package pubsubio

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/inmemory"
	gapi "google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// credentialsRefresh is how often a credentials file is looked at for a change.
const credentialsRefresh = 30 * time.Second

// clientOptions returns what every client of the connection is made with. It
// reads the credentials file, so that a client made later has later
// credentials; it opens no connection. A host name of internal/inmemory
// connects to a server in this process.
func (c Connection) clientOptions() ([]gapi.ClientOption, error) {
	sizes := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32))
	switch {
	case inmemory.Is(c.EmulatorHost):
		conn, err := inmemory.Dial(c.EmulatorHost, sizes)
		if err != nil {
			return nil, err
		}
		return []gapi.ClientOption{gapi.WithGRPCConn(conn), gapi.WithTelemetryDisabled()}, nil
	case c.EmulatorHost != "":
		// Given last, these win over what the client takes from
		// PUBSUB_EMULATOR_HOST. Setting that variable would redirect every
		// client of the process.
		return []gapi.ClientOption{
			gapi.WithEndpoint(c.EmulatorHost),
			gapi.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
			gapi.WithGRPCDialOption(sizes),
			gapi.WithoutAuthentication(),
			gapi.WithTelemetryDisabled(),
		}, nil
	}
	opts := []gapi.ClientOption{gapi.WithGRPCDialOption(sizes)}
	if c.Endpoint != "" {
		opts = append(opts, gapi.WithEndpoint(c.Endpoint))
	}
	if c.CredentialsFile != "" {
		kind, err := credentialsKind(c.CredentialsFile)
		if err != nil {
			return nil, err
		}
		opts = append(opts, gapi.WithAuthCredentialsFile(kind, c.CredentialsFile))
	}
	return opts, nil
}

// credentialsKind reads which kind of credentials a file holds. The client must
// be told, lest a file of another kind be used unnoticed.
func credentialsKind(path string) (gapi.CredentialsType, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading credentialsFile: %w", err)
	}
	var head struct {
		Type gapi.CredentialsType `json:"type"`
	}
	if json.Unmarshal(b, &head) != nil { // its error could show a part of the key
		return "", fmt.Errorf("reading credentialsFile %q: it is not a JSON file", path)
	}
	known := []gapi.CredentialsType{
		gapi.ServiceAccount, gapi.AuthorizedUser, gapi.ImpersonatedServiceAccount, gapi.ExternalAccount,
	}
	if !slices.Contains(known, head.Type) {
		return "", fmt.Errorf("reading credentialsFile %q: its type %q is none of %v", path, head.Type, known)
	}
	return head.Type, nil
}

// target names what clients of the connection are connected to: two with the
// same target may share them.
func (c Connection) target() string {
	host := c.EmulatorHost
	if host == "" {
		host = c.Endpoint
	}
	if host == "" {
		host = "the Pub/Sub service"
	}
	if c.CredentialsFile != "" {
		host += " with " + c.CredentialsFile
	}
	return host
}

// A credentialsWatch tells the version of one connection's credentials. The
// zero value is ready for use, from any goroutine.
type credentialsWatch struct {
	mu      sync.Mutex
	version string
	looked  time.Time
}

// current returns a version that changes when the content of the connection's
// credentials file does. The file is read at most every credentialsRefresh; one
// that cannot be read now keeps its version, as the clients keep the credentials
// that they have.
func (w *credentialsWatch) current(c Connection) string {
	path := c.CredentialsFile
	if path == "" && c.EmulatorHost == "" {
		path = os.Getenv("GOOGLE_APPLICATION_CREDENTIALS")
	}
	if path == "" {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.looked.IsZero() && now.Sub(w.looked) < credentialsRefresh {
		return w.version
	}
	w.looked = now
	if b, err := os.ReadFile(path); err == nil {
		sum := sha256.Sum256(b)
		w.version = hex.EncodeToString(sum[:8])
	}
	return w.version
}
