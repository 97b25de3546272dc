package main

import (
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/beam-brokers/beam-brokers/pubsubio"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

const topic = "projects/plain-project/topics/orders"

// service is the fake behind the program.
type service struct {
	srv  *pubsubfake.Server
	conn pubsubio.Connection
}

// startService starts it with one topic; each publish answer takes pause.
func startService(pause time.Duration) *service {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	srv := pubsubfake.New()
	addr, err := srv.Start("127.0.0.1:0")
	if err == nil {
		err = srv.AddTopic(topic)
	}
	if err != nil {
		log.Fatal(err)
	}
	srv.Inject(pubsubfake.Fault{Method: "Publish", AnswerDelay: pause})
	return &service{srv, pubsubio.Connection{ProjectID: "plain-project", EmulatorHost: addr}}
}

// report prints what arrived of n messages, and exits with 1 where any is
// missing.
func (s *service) report(n int) {
	stored := s.srv.Published(topic)
	distinct := map[string]bool{}
	for _, m := range stored {
		distinct[string(m.GetData())] = true
	}
	missing := n - len(distinct)
	fmt.Printf("plain-prism: sent=%d stored=%d missing=%d requests=%d\n", n, len(stored), missing, s.srv.TopicStats(topic).Requests)
	if missing != 0 {
		os.Exit(1)
	}
}
