package pubsubfake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
)

// AllStats is everything a Server counts.
type AllStats struct {
	Topics        map[string]TopicStats        `json:"topics"`
	Subscriptions map[string]SubscriptionStats `json:"subscriptions"`
	Connections   ConnStats                    `json:"connections"`
	RPCs          map[string]int64             `json:"rpcs"`
}

// AllStats returns the counters of all topics and subscriptions by full name.
func (s *Server) AllStats() AllStats {
	all := AllStats{
		Topics: map[string]TopicStats{}, Subscriptions: map[string]SubscriptionStats{},
		Connections: s.Connections(), RPCs: s.RPCs(),
	}
	s.mu.RLock()
	topics, subs := namesIn(s.topics, "projects"), namesIn(s.subscriptions, "projects")
	s.mu.RUnlock()
	for _, name := range topics {
		all.Topics[name] = s.TopicStats(name)
	}
	for _, name := range subs {
		all.Subscriptions[name] = s.Stats(name)
	}
	return all
}

// Handler serves the control side over HTTP, for a server that runs in a process
// of its own. Names are full names; answers are JSON.
//
//	GET    /stats[?log=1]          AllStats; request logs only with log=1
//	GET    /published?topic=T      {"messages": N}
//	POST   /load?topic=T&n=N&size=BYTES
//	POST   /topic?name=T
//	POST   /subscription           body: a Subscription as JSON, as in the REST API's field names
//	POST   /close-streams?subscription=S[&code=14]
//	POST   /mute?subscription=S&on=true
//	POST   /fault                  body: a Fault; durations in nanoseconds
//	DELETE /fault                  removes all
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v) // the client is gone
		})
	}
	handle("GET /stats", s.httpStats)
	handle("GET /published", func(r *http.Request) (any, error) {
		t, err := s.topic(r.FormValue("topic"))
		if err != nil {
			return nil, err
		}
		return map[string]int64{"messages": s.TopicStats(t.name).Messages}, nil
	})
	handle("POST /load", s.httpLoad)
	handle("POST /topic", func(r *http.Request) (any, error) { return struct{}{}, s.AddTopic(r.FormValue("name")) })
	handle("POST /subscription", s.httpSubscription)
	handle("POST /close-streams", s.httpCloseStreams)
	handle("POST /mute", func(r *http.Request) (any, error) {
		on, err := strconv.ParseBool(r.FormValue("on"))
		s.MuteStreams(r.FormValue("subscription"), on)
		return struct{}{}, err
	})
	handle("POST /fault", func(r *http.Request) (any, error) {
		var f Fault
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil {
			return nil, fmt.Errorf("reading the fault: %w", err)
		}
		s.Inject(f)
		return struct{}{}, nil
	})
	handle("DELETE /fault", func(*http.Request) (any, error) {
		s.ClearFaults()
		return struct{}{}, nil
	})
	return mux
}

func (s *Server) httpStats(r *http.Request) (any, error) {
	all := s.AllStats()
	if r.FormValue("log") == "" {
		for name, t := range all.Topics {
			t.RequestLog = nil
			all.Topics[name] = t
		}
	}
	return all, nil
}

func (s *Server) httpLoad(r *http.Request) (any, error) {
	n, err := strconv.Atoi(r.FormValue("n"))
	if err != nil {
		return nil, fmt.Errorf("reading n: %w", err)
	}
	size, err := strconv.Atoi(r.FormValue("size"))
	if err != nil {
		return nil, fmt.Errorf("reading size: %w", err)
	}
	return struct{}{}, s.Load(r.FormValue("topic"), n, size)
}

func (s *Server) httpSubscription(r *http.Request) (any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the subscription: %w", err)
	}
	pb := &pubsubpb.Subscription{}
	if err := protojson.Unmarshal(body, pb); err != nil {
		return nil, fmt.Errorf("reading the subscription: %w", err)
	}
	_, err = s.CreateSubscription(r.Context(), pb)
	return struct{}{}, err
}

func (s *Server) httpCloseStreams(r *http.Request) (any, error) {
	code := codes.Unavailable
	if v := r.FormValue("code"); v != "" {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("reading code: %w", err)
		}
		code = codes.Code(n)
	}
	name := r.FormValue("subscription")
	if _, err := s.subscription(name); err != nil {
		return nil, err
	}
	return map[string]int{"closed": s.CloseStreams(name, code, "closed by the control side")}, nil
}
