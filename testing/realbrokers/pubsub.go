package realbrokers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// pubsubEmulatorHome is the variable that names the directory which holds
	// bin/cloud-pubsub-emulator; it wins over every other place.
	pubsubEmulatorHome = "PUBSUB_EMULATOR_HOME"
	pubsubEmulatorDir  = "platform/pubsub-emulator"
	pubsubEmulatorBin  = "bin/cloud-pubsub-emulator"
	pubsubReadyIn      = 60 * time.Second
	pubsubReadyEvery   = 100 * time.Millisecond
)

// pubsubRoots are where packages put the Google Cloud SDK.
var pubsubRoots = []string{
	"/usr/lib/google-cloud-sdk",
	"/usr/share/google-cloud-sdk",
	"/opt/google-cloud-sdk",
}

// PubSubEmulator starts Google's Pub/Sub emulator on a free loopback port and
// waits until it answers. It returns the address, to be given to a client as its
// emulator host, and the function that ends it. The emulator does not outlive
// ctx. It is looked for in the directory named by PUBSUB_EMULATOR_HOME, in the
// SDK that gcloud belongs to, and in common places; where there is none, or no
// Java to run it, the error is ErrNotInstalled.
func PubSubEmulator(ctx context.Context) (host string, stop func(), err error) {
	bin, err := findPubSubEmulator(ctx, os.Getenv(pubsubEmulatorHome), pubsubRoots)
	if err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	p, err := startProcess(bin, os.Environ(), "--host=127.0.0.1", "--port="+strconv.Itoa(port))
	if err != nil {
		return "", nil, err
	}
	host = "127.0.0.1:" + strconv.Itoa(port)
	if err := waitForPubSub(ctx, p, host); err != nil {
		p.stop()
		return "", nil, err
	}
	release := context.AfterFunc(ctx, p.stop)
	return host, func() {
		release()
		p.stop()
	}, nil
}

// findPubSubEmulator returns the program's path. A home that is set and wrong
// is an error of its own, so that a misspelt variable is noticed.
func findPubSubEmulator(ctx context.Context, home string, roots []string) (string, error) {
	if home != "" {
		bin := filepath.Join(home, pubsubEmulatorBin)
		if !isProgram(bin) {
			return "", fmt.Errorf("pub/sub emulator: %s is set, but there is no program %s: %w", pubsubEmulatorHome, bin, ErrNotInstalled)
		}
		return bin, checkJava()
	}
	if root := gcloudRoot(ctx); root != "" {
		roots = append([]string{root}, roots...)
	}
	for _, root := range roots {
		bin := filepath.Join(root, pubsubEmulatorDir, pubsubEmulatorBin)
		if isProgram(bin) {
			return bin, checkJava()
		}
	}
	return "", fmt.Errorf("pub/sub emulator: not found in a Google Cloud SDK (install the component pubsub-emulator or set %s): %w", pubsubEmulatorHome, ErrNotInstalled)
}

// gcloudRoot asks gcloud where its SDK is; empty if there is none.
func gcloudRoot(ctx context.Context) string {
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, gcloud, "info", "--format=value(installation.sdk_root)").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func checkJava() error {
	if home := os.Getenv("JAVA_HOME"); home != "" && isProgram(filepath.Join(home, "bin", "java")) {
		return nil
	}
	if _, err := exec.LookPath("java"); err != nil {
		return fmt.Errorf("pub/sub emulator: it needs Java, which is not on the PATH: %w", ErrNotInstalled)
	}
	return nil
}

// waitForPubSub asks until the emulator answers, has ended, or takes too long.
func waitForPubSub(ctx context.Context, p *process, host string) error {
	conn, err := grpc.NewClient(host, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("dialing the pub/sub emulator: %w", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, pubsubReadyIn)
	defer cancel()
	client := pubsubpb.NewPublisherClient(conn)
	tick := time.NewTicker(pubsubReadyEvery)
	defer tick.Stop()
	for {
		// A port that is not open yet must not bring gRPC's backoff into play.
		conn.ResetConnectBackoff()
		_, err := client.ListTopics(ctx, &pubsubpb.ListTopicsRequest{Project: "projects/ready-check"})
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("starting the pub/sub emulator: it ended at once: %s", p.output.String())
		case <-ctx.Done():
			return fmt.Errorf("waiting for the pub/sub emulator: %w: %s", errors.Join(ctx.Err(), err), p.output.String())
		case <-tick.C:
		}
	}
}
