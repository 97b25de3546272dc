package pubsubfake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	snapshotLife    = 7 * 24 * time.Hour
	minSnapshotLife = time.Hour
)

// A snapshot remembers which messages of a topic a subscription had not
// acknowledged. pb changes under Server.mu; the rest never does.
type snapshot struct {
	pb      *pubsubpb.Snapshot
	topic   *topic
	unacked map[int64]bool // by message id
	cutoff  int64          // messages from this id on came later
}

func (sn *snapshot) covers(seq int64) bool { return seq >= sn.cutoff || sn.unacked[seq] }

func (s *Server) snapshot(name string) (*snapshot, error) {
	s.mu.RLock()
	sn := s.snapshots[name]
	s.mu.RUnlock()
	if sn == nil || !sn.pb.GetExpireTime().AsTime().After(s.clock.Now()) {
		if err := checkName(name, "snapshots"); err != nil {
			return nil, err
		}
		return nil, status.Errorf(codes.NotFound, "Resource not found (resource=%s).", shortName(name))
	}
	return sn, nil
}

// CreateSnapshot implements the RPC.
func (s *Server) CreateSnapshot(_ context.Context, req *pubsubpb.CreateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	sub, err := s.subscription(req.GetSubscription())
	if err != nil {
		return nil, err
	}
	name := req.GetName()
	if name == "" {
		name = fmt.Sprintf("projects/%s/snapshots/snapshot-%d", projectOf(sub.name), s.ids.Add(1))
	}
	if err := checkName(name, "snapshots"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.snapshots[name]; old != nil && old.pb.GetExpireTime().AsTime().After(s.clock.Now()) {
		return nil, status.Errorf(codes.AlreadyExists, "Resource already exists in the project (resource=%s).", shortName(name))
	}
	sn, err := sub.snapshot(s.clock.Now())
	if err != nil {
		return nil, err
	}
	sn.pb.Name, sn.pb.Labels = name, req.GetLabels()
	s.snapshots[name] = sn
	return proto.CloneOf(sn.pb), nil
}

// snapshot notes what is not acknowledged and has the topic keep it.
func (s *subscription) snapshot(now time.Time) (*snapshot, error) {
	t := s.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	life := snapshotLife
	if e := s.backlog.head; e != nil {
		life -= now.Sub(time.Unix(0, e.at))
	}
	if life < minSnapshotLife {
		return nil, status.Error(codes.FailedPrecondition, "The snapshot would expire in less than an hour: the oldest unacknowledged message is too old.")
	}
	sn := &snapshot{topic: t, unacked: map[int64]bool{}, cutoff: s.srv.ids.Load() + 1}
	var records []record
	for e := s.backlog.head; e != nil; e = e.next {
		if !sn.unacked[e.seq] {
			sn.unacked[e.seq] = true
			records = append(records, e.record)
		}
	}
	t.merge(records)
	t.snapshots++
	sn.pb = &pubsubpb.Snapshot{Topic: t.name, ExpireTime: timestamppb.New(now.Add(life))}
	return sn, nil
}

// merge adds records to the log that are not in it. t.mu is held.
func (t *topic) merge(records []record) {
	have := make(map[int64]bool, len(t.log))
	for _, r := range t.log {
		have[r.seq] = true
	}
	records = slices.DeleteFunc(records, func(r record) bool { return have[r.seq] })
	if len(records) == 0 {
		return
	}
	t.log = append(slices.Clone(t.log), records...)
	slices.SortFunc(t.log, func(a, b record) int { return int(a.seq - b.seq) })
}

// GetSnapshot implements the RPC.
func (s *Server) GetSnapshot(_ context.Context, req *pubsubpb.GetSnapshotRequest) (*pubsubpb.Snapshot, error) {
	sn, err := s.snapshot(req.GetSnapshot())
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return proto.CloneOf(sn.pb), nil
}

// UpdateSnapshot implements the RPC.
func (s *Server) UpdateSnapshot(_ context.Context, req *pubsubpb.UpdateSnapshotRequest) (*pubsubpb.Snapshot, error) {
	sn, err := s.snapshot(req.GetSnapshot().GetName())
	if err != nil {
		return nil, err
	}
	if len(req.GetUpdateMask().GetPaths()) == 0 {
		return nil, invalid("The update_mask in the UpdateSnapshotRequest must be set.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pb := proto.CloneOf(sn.pb)
	for _, path := range req.GetUpdateMask().GetPaths() {
		switch path {
		case "labels":
			pb.Labels = req.GetSnapshot().GetLabels()
		case "expire_time":
			pb.ExpireTime = req.GetSnapshot().GetExpireTime()
		default:
			return nil, invalid("Invalid update_mask path %q: unknown or not to be changed.", path)
		}
	}
	sn.pb = pb
	return proto.CloneOf(pb), nil
}

// ListSnapshots implements the RPC.
func (s *Server) ListSnapshots(_ context.Context, req *pubsubpb.ListSnapshotsRequest) (*pubsubpb.ListSnapshotsResponse, error) {
	s.mu.RLock()
	names := namesIn(s.snapshots, req.GetProject())
	s.mu.RUnlock()
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	resp := &pubsubpb.ListSnapshotsResponse{NextPageToken: next}
	for _, name := range names {
		if sn, err := s.GetSnapshot(context.Background(), &pubsubpb.GetSnapshotRequest{Snapshot: name}); err == nil {
			resp.Snapshots = append(resp.Snapshots, sn)
		}
	}
	return resp, nil
}

// ListTopicSnapshots implements the RPC.
func (s *Server) ListTopicSnapshots(_ context.Context, req *pubsubpb.ListTopicSnapshotsRequest) (*pubsubpb.ListTopicSnapshotsResponse, error) {
	t, err := s.topic(req.GetTopic())
	if err != nil {
		return nil, err
	}
	var names []string
	s.mu.RLock()
	for name, sn := range s.snapshots {
		if sn.topic == t {
			names = append(names, name)
		}
	}
	s.mu.RUnlock()
	slices.Sort(names)
	names, next := page(names, req.GetPageSize(), req.GetPageToken())
	return &pubsubpb.ListTopicSnapshotsResponse{Snapshots: names, NextPageToken: next}, nil
}

// DeleteSnapshot implements the RPC.
func (s *Server) DeleteSnapshot(_ context.Context, req *pubsubpb.DeleteSnapshotRequest) (*emptypb.Empty, error) {
	sn, err := s.snapshot(req.GetSnapshot())
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.snapshots, req.GetSnapshot())
	s.mu.Unlock()
	sn.topic.mu.Lock()
	defer sn.topic.mu.Unlock()
	sn.topic.snapshots--
	return &emptypb.Empty{}, nil
}
