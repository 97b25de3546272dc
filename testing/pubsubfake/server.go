package pubsubfake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress publish requests
	"google.golang.org/grpc/test/bufconn"
)

// ErrClosed is returned by methods of a Server that Close has ended.
var ErrClosed = errors.New("pubsubfake: server closed")

const (
	maxRequestBytes = 32 << 20 // above every limit that the handlers check
	windowBytes     = 8 << 20  // of HTTP/2; large, so that loopback is not the limit
	pipeBytes       = 1 << 20
)

// A Server is one Pub/Sub service. It is ready for use without a listener;
// Start and Dial give it ways to be reached. All methods may be called from any
// goroutine.
type Server struct {
	pubsubpb.UnimplementedPublisherServer
	pubsubpb.UnimplementedSubscriberServer
	pubsubpb.UnimplementedSchemaServiceServer

	cfg     config
	clock   Clock
	hook    atomic.Pointer[func(Event)]
	ids     atomic.Int64 // last message id given
	subIDs  atomic.Uint64
	faults  faultTable
	conns   connCounts
	rpcs    sync.Map // method name -> *atomic.Int64
	schemas schemaStore

	mu            sync.RWMutex // guards what follows; taken before topic.mu before subscription.mu
	topics        map[string]*topic
	subscriptions map[string]*subscription
	snapshots     map[string]*snapshot
	serving       *serving
	closed        bool
}

// A serving is one span between Start or Dial and Stop.
type serving struct {
	grpc   *grpc.Server
	pipe   *bufconn.Listener
	tcp    net.Listener
	dialed []*grpc.ClientConn
	wg     sync.WaitGroup
}

// New makes a server with no topics that does not listen yet.
func New(opts ...Option) *Server {
	s := &Server{
		cfg:           defaults(),
		topics:        map[string]*topic{},
		subscriptions: map[string]*subscription{},
		snapshots:     map[string]*snapshot{},
	}
	for _, o := range opts {
		o(&s.cfg)
	}
	s.clock = s.cfg.clock
	s.schemas.clock = s.clock
	s.ids.Store(1_000_000_000)
	s.OnEvent(s.cfg.hook)
	return s
}

// Start listens on a TCP address, for example "127.0.0.1:0", and returns the
// address it got, to be given to a client as its emulator host.
func (s *Server) Start(address string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sv, err := s.serve()
	if err != nil {
		return "", err
	}
	if sv.tcp != nil {
		return "", fmt.Errorf("pubsubfake: already listening on %s", sv.tcp.Addr())
	}
	lis, err := net.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("listening for Pub/Sub clients: %w", err)
	}
	sv.tcp = lis
	sv.run(&countingListener{Listener: lis, counts: &s.conns})
	return lis.Addr().String(), nil
}

// Addr is the TCP address of Start, or empty.
func (s *Server) Addr() string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.serving == nil || s.serving.tcp == nil {
		return ""
	}
	return s.serving.tcp.Addr().String()
}

// Dial returns a connection to the server over a pipe in memory: no network, so
// it works inside testing/synctest. Stop and Close close it if the caller has
// not. Further dial options may be added.
func (s *Server) Dial(ctx context.Context, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sv, err := s.serve()
	if err != nil {
		return nil, err
	}
	if sv.pipe == nil {
		sv.pipe = bufconn.Listen(pipeBytes)
		sv.run(&countingListener{Listener: sv.pipe, counts: &s.conns})
	}
	pipe := sv.pipe
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return pipe.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(2 * maxRequestBytes)),
	}, opts...)
	conn, err := grpc.NewClient("passthrough:///pubsubfake", opts...)
	if err != nil {
		return nil, fmt.Errorf("dialing pubsubfake: %w", err)
	}
	sv.dialed = append(sv.dialed, conn)
	return conn, nil
}

// serve returns the present span, begun if need be. s.mu is held.
func (s *Server) serve() (*serving, error) {
	if s.closed {
		return nil, ErrClosed
	}
	if s.serving == nil {
		g := grpc.NewServer(
			grpc.MaxRecvMsgSize(maxRequestBytes),
			grpc.MaxSendMsgSize(2*maxRequestBytes),
			grpc.InitialWindowSize(windowBytes),
			grpc.InitialConnWindowSize(windowBytes),
			grpc.ReadBufferSize(128<<10),
			grpc.WriteBufferSize(128<<10),
			grpc.WaitForHandlers(true),
			grpc.UnaryInterceptor(s.interceptUnary),
			grpc.StreamInterceptor(s.interceptStream),
		)
		pubsubpb.RegisterPublisherServer(g, s)
		pubsubpb.RegisterSubscriberServer(g, s)
		pubsubpb.RegisterSchemaServiceServer(g, s)
		s.serving = &serving{grpc: g}
	}
	return s.serving, nil
}

func (sv *serving) run(lis net.Listener) {
	sv.wg.Go(func() {
		// Serve ends by Stop, with no error; any other end shows at the clients.
		_ = sv.grpc.Serve(lis)
	})
}

// Stop ends every connection and listener, as a service that crashes does.
// Topics, subscriptions and leases stay; Start and Dial work again afterwards.
// It waits for the goroutines of all calls.
func (s *Server) Stop() {
	s.mu.Lock()
	sv := s.serving
	s.serving = nil
	s.mu.Unlock()
	if sv == nil {
		return
	}
	sv.grpc.Stop()
	for _, c := range sv.dialed {
		_ = c.Close() // the caller may have closed it before
	}
	sv.wg.Wait()
}

// Close ends the server for good and waits for all its goroutines. What was
// counted and published can still be read.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	subs := make([]*subscription, 0, len(s.subscriptions))
	for _, sub := range s.subscriptions {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	s.Stop()
	for _, sub := range subs {
		sub.close()
	}
}

// DropConnections cuts every connection without a word, as a failing network
// does. Clients may connect again at once.
func (s *Server) DropConnections() { s.conns.drop() }

func (s *Server) countRPC(method string) {
	c, ok := s.rpcs.Load(method)
	if !ok {
		c, _ = s.rpcs.LoadOrStore(method, new(atomic.Int64))
	}
	c.(*atomic.Int64).Add(1)
}

// RPCs counts the calls by method name ("Publish", "ModifyAckDeadline", ...),
// refused ones included. A stream counts once, when it is opened.
func (s *Server) RPCs() map[string]int64 {
	m := map[string]int64{}
	s.rpcs.Range(func(k, v any) bool {
		m[k.(string)] = v.(*atomic.Int64).Load()
		return true
	})
	return m
}
