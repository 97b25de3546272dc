// Package inmemory lets a test put a server in its own process behind a
// connector, without a network.
//
// A DoFn travels as JSON, so a test cannot hand it a connection. It registers
// a dialer here instead and gives the connector the host name it gets back,
// "inmemory:NAME", which survives the journey; the worker, in the same
// process, finds the dialer by it. So the same transform runs inside a
// testing/synctest bubble and on a real address.
package inmemory

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc"
)

const scheme = "inmemory:"

// A Dialer makes a client connection to a server in this process. The caller
// closes it.
type Dialer func(opts ...grpc.DialOption) (*grpc.ClientConn, error)

var dialers = struct {
	sync.Mutex
	byHost map[string]Dialer
	next   int
}{byHost: map[string]Dialer{}}

// Register makes d reachable under the host name that it returns, until remove
// is called. Several servers have several names.
func Register(d Dialer) (host string, remove func()) {
	dialers.Lock()
	defer dialers.Unlock()
	dialers.next++
	host = scheme + strconv.Itoa(dialers.next)
	dialers.byHost[host] = d
	return host, func() {
		dialers.Lock()
		defer dialers.Unlock()
		delete(dialers.byHost, host)
	}
}

// Is tells whether host is a name that Register gives.
func Is(host string) bool { return strings.HasPrefix(host, scheme) }

// Dial connects to the server registered under host.
func Dial(host string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	dialers.Lock()
	d := dialers.byHost[host]
	dialers.Unlock()
	if d == nil {
		return nil, fmt.Errorf("connecting to %q: no such server in this process", host)
	}
	return d(opts...)
}
