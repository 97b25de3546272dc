package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"golang.org/x/sync/errgroup"

	"github.com/beam-brokers/beam-brokers/internal/checks"
	"github.com/beam-brokers/beam-brokers/internal/rawpubsub"
	"github.com/beam-brokers/beam-brokers/testing/pubsubfake"
)

// outstanding is the limit of unacknowledged messages, the same for both.
const outstanding = 10_000

// A fake is the server in its own process.
type fake struct {
	process *checks.Process
	remove  func()
	address string
	control string
	client  *rawpubsub.Client
	names   int // of the topics and subscriptions made
}

func startFake(ctx context.Context) (*fake, error) {
	path, remove, err := checks.Build(ctx, "", "github.com/beam-brokers/beam-brokers/testing/pubsubfake/cmd/pubsubfake")
	if err != nil {
		return nil, err
	}
	f := &fake{remove: remove}
	if f.process, err = checks.Start(path, "-project", checks.Project); err != nil {
		remove()
		return nil, err
	}
	err = checks.Wait(ctx, "the fake to start", 10*time.Second, func() bool {
		n, _ := fmt.Sscanf(f.process.Output(), "pubsub=%s http=%s", &f.address, &f.control)
		return n == 2
	})
	if err == nil {
		f.client, err = rawpubsub.Dial(ctx, f.address)
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

func (f *fake) stop() {
	if f.client != nil {
		_ = f.client.Close() // the server ends as well
	}
	f.process.Signal(syscall.SIGTERM)
	if _, err := f.process.Wait(5 * time.Second); err != nil {
		f.process.Kill()
	}
	f.remove()
}

// fill makes a topic with a subscription that holds the messages of a run.
func (f *fake) fill(ctx context.Context) (sub string, err error) {
	f.names++
	topic, sub := checks.Topic(fmt.Sprintf("read-%d", f.names)), checks.Subscription(fmt.Sprintf("read-%d", f.names))
	if err := f.client.Create(ctx, topic, sub, time.Minute); err != nil {
		return "", err
	}
	q := url.Values{"topic": {topic}, "n": {fmt.Sprint(*n)}, "size": {fmt.Sprint(*size)}}
	return sub, f.call(ctx, http.MethodPost, "/load?"+q.Encode(), nil)
}

// call asks the server's control side.
func (f *fake) call(ctx context.Context, method, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+f.control+path, strings.NewReader(""))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking the fake: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking the fake for %s: %s", path, resp.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// settled waits until every message of a run is acknowledged.
func (f *fake) settled(ctx context.Context, sub string) error {
	var last pubsubfake.SubscriptionStats
	err := checks.Wait(ctx, "acknowledgements", 10*time.Second, func() bool {
		var all pubsubfake.AllStats
		if f.call(ctx, http.MethodGet, "/stats", &all) != nil {
			return false
		}
		last = all.Subscriptions[sub]
		return last.Acked == int64(*n)
	})
	if err != nil || last.Redelivered > 0 {
		return errors.Join(err, fmt.Errorf("of %d messages %d are acknowledged and %d came again", *n, last.Acked, last.Redelivered))
	}
	return nil
}

// rawRead reads with one stream and acknowledges in requests of 1000.
func (f *fake) rawRead(ctx context.Context) (result, error) {
	sub, err := f.fill(ctx)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := f.client.Subscriptions.StreamingPull(ctx)
	if err != nil {
		return result{}, err
	}
	watch := begin()
	err = stream.Send(&pubsubpb.StreamingPullRequest{
		Subscription: sub, StreamAckDeadlineSeconds: 60, MaxOutstandingMessages: outstanding, MaxOutstandingBytes: 64 << 20,
	})
	if err != nil {
		return result{}, err
	}
	acks := make(chan []string, 16)
	var g errgroup.Group
	for range 4 {
		g.Go(func() error {
			for ids := range acks {
				if err := f.client.Subscriptions.Acknowledge(ctx, &pubsubpb.AcknowledgeRequest{Subscription: sub, AckIds: ids}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = receive(stream, acks)
	close(acks)
	if err := errors.Join(err, g.Wait()); err != nil {
		return result{}, err
	}
	r := watch.result(*n)
	return r, f.settled(ctx, sub)
}

func receive(stream pubsubpb.Subscriber_StreamingPullClient, acks chan<- []string) error {
	var ids []string
	for got := 0; got < *n; {
		resp, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, m := range resp.ReceivedMessages {
			if ids = append(ids, m.AckId); len(ids) == 1000 {
				acks <- ids
				ids = nil
			}
		}
		got += len(resp.ReceivedMessages)
		// The limit may be below a full request: never wait with all of it in hand.
		if len(ids) > 0 && len(resp.ReceivedMessages) < 1000 {
			acks <- ids
			ids = nil
		}
	}
	if len(ids) > 0 {
		acks <- ids
	}
	return nil
}

// rawWrite publishes requests of 1000 messages, several at once.
func (f *fake) rawWrite(ctx context.Context) (result, error) {
	topic, err := f.target(ctx)
	if err != nil {
		return result{}, err
	}
	body := checks.Message(0, *size).Data
	watch := begin()
	var g errgroup.Group
	g.SetLimit(*clients)
	for left := *n; left > 0; left -= 1000 {
		req := &pubsubpb.PublishRequest{Topic: topic}
		for range min(left, 1000) {
			req.Messages = append(req.Messages, &pubsubpb.PubsubMessage{Data: body})
		}
		g.Go(func() error {
			_, err := f.client.Topics.Publish(ctx, req)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return result{}, err
	}
	r := watch.result(*n)
	return r, f.published(ctx, topic)
}

// target makes a topic to publish to.
func (f *fake) target(ctx context.Context) (string, error) {
	f.names++
	topic := checks.Topic(fmt.Sprintf("write-%d", f.names))
	_, err := f.client.Topics.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	return topic, err
}

// published wants the messages of a run in the topic.
func (f *fake) published(ctx context.Context, topic string) error {
	var got struct{ Messages int }
	err := f.call(ctx, http.MethodGet, "/published?topic="+url.QueryEscape(topic), &got)
	if err == nil && got.Messages != *n {
		err = fmt.Errorf("%d of %d messages were published", got.Messages, *n)
	}
	return err
}
