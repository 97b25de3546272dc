// Command windows checks event-time windows over a live subscription with the
// program of pipelines/windows: messages of ten minutes, out of order and with
// back-dated publish times, are sent in under two minutes; the counts per key
// and minute must be exact, the first minute must come out before the last
// message is sent, and the last one when the source has gone quiet.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"

	"github.com/beam-brokers/beam-brokers/internal/checks"
)

var (
	minutes = flag.Int("minutes", 10, "minutes of publish time")
	keys    = flag.Int("keys", 3, "keys")
	each    = flag.Int("each", 120, "messages of a key in a minute, on average")
	pace    = flag.Duration("pace", 10*time.Second, "real time for each minute")
	seed    = flag.Uint64("seed", 1, "of the random choices")
)

func main() { checks.Main("check-windows", 10*time.Minute, run) }

// A cell is a key in a minute.
type cell struct {
	minute string
	key    string
}

// A message is one to be sent.
type message struct {
	at  time.Time // publish time
	key string
}

func run(ctx context.Context) (string, error) {
	b, err := checks.StartBroker(ctx, checks.FakeBroker)
	if err != nil {
		return "", err
	}
	defer b.Stop()
	topic, sub, err := b.Pair(ctx, "from", 10*time.Second)
	if err != nil {
		return "", err
	}
	path, remove, err := checks.Build(ctx, "", "github.com/beam-brokers/beam-brokers/pipelines/windows")
	if err != nil {
		return "", err
	}
	defer remove()
	if err := os.Setenv("PUBSUB_EMULATOR_HOST", b.Address); err != nil {
		return "", err
	}
	p, err := checks.Start(path, "--subscription="+sub, "--key=key")
	if err != nil {
		return "", err
	}
	defer p.Kill()
	// Ten minutes that end about when the sending ends.
	start := time.Now().Add(-time.Duration(*minutes) * time.Minute).Truncate(time.Minute)
	var first time.Time // when a count came out
	look := func() {
		if first.IsZero() && len(parse(p.Output())) > 0 {
			first = time.Now()
		}
	}
	want, lastSent, err := send(ctx, b, topic, start, look)
	if err != nil {
		return "", err
	}
	err = checks.Wait(ctx, fmt.Sprintf("%d counts", len(want)), 3*time.Minute, func() bool {
		look()
		return len(parse(p.Output())) >= len(want) || p.Ended()
	})
	if err != nil {
		return "", fmt.Errorf("%d of %d counts came: %w: %s", len(parse(p.Output())), len(want), err, p.Tail())
	}
	last := time.Since(lastSent)
	if err := checks.Sleep(ctx, 3*time.Second); err != nil { // for more than there should be
		return "", err
	}
	return judge(want, parse(p.Output()), first, lastSent, last)
}

// send sends the messages in slices, each shuffled within itself. It returns the
// counts that must come out, and when the last message was sent.
func send(ctx context.Context, b *checks.Broker, topic string, start time.Time, look func()) (map[cell]int, time.Time, error) {
	random := rand.New(rand.NewPCG(*seed, *seed))
	want := map[cell]int{}
	const slices = 20 // of a minute
	slice := time.Minute / slices
	tick := time.NewTicker(*pace / slices)
	defer tick.Stop()
	for i := range *minutes * slices {
		from := start.Add(time.Duration(i) * slice)
		var batch []message
		for k := range *keys {
			for range random.IntN(2**each/slices + 1) {
				m := message{from.Add(time.Duration(random.Int64N(int64(slice)))), "key-" + strconv.Itoa(k)}
				batch = append(batch, m)
				want[cell{m.at.Truncate(time.Minute).UTC().Format(time.RFC3339), m.key}]++
			}
		}
		for _, m := range batch {
			_, err := b.Fake.PublishAt(topic, m.at, &pubsubpb.PubsubMessage{Data: []byte("x"), Attributes: map[string]string{"key": m.key}})
			if err != nil {
				return nil, time.Time{}, err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, time.Time{}, ctx.Err()
		}
		look()
		if i%slices == slices-1 {
			checks.Say("minute %d of %d is sent", i/slices+1, *minutes)
		}
	}
	return want, time.Now(), nil
}

// A line is a count that the program printed.
type line struct {
	cell
	n int
}

// parse finds the lines of counts between those of the log.
func parse(output string) []line {
	var all []line
	for text := range strings.Lines(output) {
		f := strings.Split(strings.TrimSpace(text), "\t")
		if len(f) != 3 {
			continue
		}
		if n, err := strconv.Atoi(f[2]); err == nil {
			all = append(all, line{cell{f[0], f[1]}, n})
		}
	}
	return all
}

// judge compares what came out with what must.
func judge(want map[cell]int, got []line, first time.Time, lastSent time.Time, last time.Duration) (string, error) {
	sum, total, wrong, twice := 0, 0, 0, 0
	seen := map[cell]bool{}
	for _, l := range got {
		sum += l.n
		if seen[l.cell] {
			twice++
		}
		seen[l.cell] = true
		if want[l.cell] != l.n {
			wrong++
		}
	}
	for _, n := range want {
		total += n
	}
	summary := fmt.Sprintf("%d messages, %d keys, %d minutes: %d counts, %d wrong, %d late; first out %v before the last message, last out %v after it",
		total, *keys, *minutes, len(got), wrong, total-sum, lastSent.Sub(first).Round(100*time.Millisecond), last.Round(100*time.Millisecond))
	var c checks.Claims
	c.That(len(seen) == len(want), "%d counts of %d came out", len(seen), len(want))
	c.That(wrong == 0, "%d counts are wrong", wrong)
	c.That(twice == 0, "%d windows came out twice", twice)
	c.That(total == sum, "%d messages are not in any count", total-sum)
	c.That(!first.IsZero() && first.Before(lastSent), "the first window came out after the last message was sent")
	return summary, c.Err()
}
