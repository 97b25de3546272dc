package drain

import (
	"context"
	"fmt"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/metricsx"
	jobpb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/jobmanagement_v1"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A Client talks to the job server that a job was submitted to: Prism in this
// process, or the one at --endpoint. It is safe for use from many goroutines.
type Client struct {
	name string // of the job

	mu   sync.Mutex
	conn *grpc.ClientConn
	id   string
}

// NewClient makes a client for the job with a name that is unique in its job
// server.
func NewClient(jobName string) *Client { return &Client{name: jobName} }

// find looks the job up. It is not there before it is submitted, and never on
// runners without a job server.
func (j *Client) find(ctx context.Context) (jobpb.JobServiceClient, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if *jobopts.Endpoint == "" {
		return nil, fmt.Errorf("finding job %q: there is no job server", j.name)
	}
	if j.conn == nil {
		conn, err := grpc.NewClient(*jobopts.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("connecting to the job server: %w", err)
		}
		j.conn = conn
	}
	client := jobpb.NewJobServiceClient(j.conn)
	if j.id != "" {
		return client, nil
	}
	jobs, err := client.GetJobs(ctx, &jobpb.GetJobsRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	for _, job := range jobs.GetJobInfo() {
		if job.GetJobName() == j.name {
			j.id = job.GetJobId()
			return client, nil
		}
	}
	return nil, fmt.Errorf("finding job %q: it is not known to the job server", j.name)
}

// Cancel ends the job without its bundles. Cancelling the context of beam.Run
// instead would panic inside Prism.
func (j *Client) Cancel(ctx context.Context) error {
	client, err := j.find(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Cancel(ctx, &jobpb.CancelJobRequest{JobId: j.id}); err != nil {
		return fmt.Errorf("cancelling job %q: %w", j.name, err)
	}
	return nil
}

// Metrics are the job's Beam metrics so far.
func (j *Client) Metrics(ctx context.Context) (*metrics.QueryResults, error) {
	client, err := j.find(ctx)
	if err != nil {
		return nil, err
	}
	resp, err := client.GetJobMetrics(ctx, &jobpb.GetJobMetricsRequest{JobId: j.id})
	if err != nil {
		return nil, fmt.Errorf("asking for the metrics of job %q: %w", j.name, err)
	}
	r := metricsx.FromMonitoringInfos(nil, resp.GetMetrics().GetAttempted(), resp.GetMetrics().GetCommitted()).AllMetrics()
	return &r, nil
}

// Close ends the connection.
func (j *Client) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.conn != nil {
		_ = j.conn.Close() // the job has ended; nothing is asked any more
	}
}
