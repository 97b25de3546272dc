package pubsubio

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/beam-brokers/beam-brokers/internal/options"
)

// mistakes gathers what is wrong with a set of options.
type mistakes struct {
	given func(string) bool
	errs  []error
}

func (m *mistakes) add(e options.Error) { m.errs = append(m.errs, &e) }

// needs reports an option, or a value of one, that cannot be without another.
func (m *mistakes) needs(what bool, key, value, other, why string) {
	if what && !m.given(other) {
		m.add(options.Error{Key: key, Value: value, Problem: "needs " + other + why, Also: []string{other}})
	}
}

// onlyWith reports an option that was given where it has no effect.
func (m *mistakes) onlyWith(has bool, key, other, why string) {
	if m.given(key) && !has {
		m.add(options.Error{Key: key, Problem: "has no effect " + why, Also: []string{other}})
	}
}

func oneOf[T ~string](m *mistakes, key string, v T, legal ...T) {
	if slices.Contains(legal, v) {
		return
	}
	names := make([]string, len(legal))
	for i, l := range legal {
		names[i] = string(l)
	}
	m.add(options.Error{
		Key: key, Value: string(v), Problem: "is not a legal value",
		Nearest: options.Nearest(string(v), names), Legal: strings.Join(names, ", "),
	})
}

// within reports a number out of its range; most 0 is no upper limit.
func within[T int | int64](m *mistakes, key string, v, least, most T) {
	if v >= least && (most == 0 || v <= most) {
		return
	}
	legal := fmt.Sprintf("%d to %d", least, most)
	if most == 0 {
		legal = fmt.Sprintf("%d or more", least)
	}
	m.add(options.Error{Key: key, Value: fmt.Sprint(v), Problem: "is out of range", Legal: legal})
}

// lasts reports a duration out of its range; most 0 is no upper limit.
func (m *mistakes) lasts(key string, d, least, most time.Duration) {
	if d >= least && (most == 0 || d <= most) {
		return
	}
	legal := fmt.Sprintf("%s to %s", options.Seconds(least), options.Seconds(most))
	if most == 0 {
		legal = options.Seconds(least) + " or more"
	}
	m.add(options.Error{Key: key, Value: d.String(), Problem: "is out of range", Legal: legal})
}

// resource reports an id or full name that the service would not take.
func (m *mistakes) resource(conn Connection, key, collection, name string) {
	if name == "" {
		return
	}
	form := "an id, or projects/PROJECT/" + collection + "/ID"
	id := name
	if strings.Contains(name, "/") {
		p := strings.Split(name, "/")
		if len(p) != 4 || p[0] != "projects" || p[1] == "" || p[2] != collection {
			m.add(options.Error{Key: key, Value: name, Problem: "is not a full name", Legal: form})
			return
		}
		id = p[3]
	} else if conn.ProjectID == "" {
		m.add(options.Error{Key: "projectId", Problem: "is required, since " + key + " is not a full name", Also: []string{key}})
	}
	if why := badID(id); why != "" {
		m.add(options.Error{Key: key, Value: name, Problem: why, Legal: form})
	}
}

// badID says why an id is none, after the service's naming rules.
func badID(id string) string {
	switch {
	case len(id) < 3 || len(id) > 255:
		return "has an id of " + strconv.Itoa(len(id)) + " characters, not 3 to 255"
	case !isLetter(id[0]):
		return "has an id that does not start with a letter"
	case len(id) >= 4 && strings.EqualFold(id[:4], "goog"):
		return "has an id that starts with goog, which is reserved"
	}
	for _, r := range id {
		if r > 127 || !isLetter(byte(r)) && !strings.ContainsRune("0123456789-_.~+%", r) {
			return "has an id with the illegal character " + strconv.QuoteRune(r)
		}
	}
	return ""
}

func isLetter(b byte) bool { return b|0x20 >= 'a' && b|0x20 <= 'z' }

// fullName completes an id with its project; a full name stays.
func fullName(project, collection, name string) string {
	if name == "" || strings.Contains(name, "/") {
		return name
	}
	return "projects/" + project + "/" + collection + "/" + name
}

func (m *mistakes) connection(conn Connection) {
	if conn.EmulatorHost == "" {
		return
	}
	if conn.CredentialsFile != "" {
		m.add(options.Error{Key: "credentialsFile", Problem: "has no effect with emulatorHost, which is spoken to without credentials", Also: []string{"emulatorHost"}})
	}
	if conn.Endpoint != "" {
		m.add(options.Error{Key: "endpoint", Problem: "contradicts emulatorHost: there is one address", Also: []string{"emulatorHost"}})
	}
}

func (m *mistakes) runner(name string) {
	if name == "direct" {
		m.add(options.Error{Key: "runner", Value: name, Problem: "is refused: the Go direct runner drops what a source wants to resume; use --runner=prism"})
	}
}

// validate joins every mistake of a read's settings; nil when there is none.
func (c *readConfig) validate(conn Connection) error {
	m := &mistakes{given: c.given}
	m.connection(conn)
	if c.Subscription == "" {
		m.add(options.Error{Key: "subscription", Problem: "is required"})
	}
	m.resource(conn, "subscription", "subscriptions", c.Subscription)
	m.resource(conn, "topic", "topics", c.Topic)
	m.resource(conn, "seekSnapshot", "snapshots", c.SeekSnapshot)
	c.checkSeek(m)
	c.checkTrigger(m)
	c.checkGather(m)
	c.checkSettling(m)
	c.checkSchema(m)
	c.checkClients(m)
	c.checkTime(m)
	m.runner(c.Runner)
	return errors.Join(m.errs...)
}

func (c *readConfig) checkSeek(m *mistakes) {
	oneOf(m, "seek", c.Seek, SeekNone, SeekBeginning, SeekToTime, SeekToSnapshot)
	m.needs(c.Seek == SeekToTime, "seek", "timestamp", "seekTime", "")
	m.needs(c.Seek == SeekToSnapshot, "seek", "snapshot", "seekSnapshot", "")
	m.onlyWith(c.Seek == SeekToTime, "seekTime", "seek", "without seek=timestamp")
	m.onlyWith(c.Seek == SeekToSnapshot, "seekSnapshot", "seek", "without seek=snapshot")
	if c.given("seekSnapshot") && c.SeekSnapshot == "" {
		m.add(options.Error{Key: "seekSnapshot", Problem: "is empty"})
	}
}

func (c *readConfig) checkTrigger(m *mistakes) {
	if strings.EqualFold(string(c.Trigger), "continuous") {
		m.add(options.Error{Key: "trigger", Value: "continuous", Problem: continuousRefused})
	} else {
		oneOf(m, "trigger", c.Trigger, TriggerProcessingTime, TriggerAvailableNow, TriggerOnce)
	}
	m.needs(c.Trigger == TriggerOnce, "trigger", "once", "receiveTime", ": without it the job could end before its first message")
	m.onlyWith(c.Trigger == TriggerAvailableNow, "limitTime", "trigger", "without trigger=availableNow")
	m.onlyWith(c.Trigger == TriggerProcessingTime, "processingTime", "trigger", "with trigger="+string(c.Trigger))
	if c.given("limitTime") && c.given("seekTime") && !c.LimitTime.After(c.SeekTime) {
		m.add(options.Error{
			Key: "limitTime", Value: c.LimitTime.Format(time.RFC3339Nano),
			Problem: "is not after seekTime: nothing would be read", Also: []string{"seekTime"},
		})
	}
	if c.given("receiveTime") {
		m.lasts("receiveTime", c.ReceiveTime, time.Millisecond, 0)
	}
	if c.given("processingTime") {
		m.lasts("processingTime", c.ProcessingTime, time.Millisecond, 0)
	}
	if c.given("receiveTime") && c.given("processingTime") && c.ReceiveTime >= c.ProcessingTime {
		m.add(options.Error{
			Key: "receiveTime", Value: c.ReceiveTime.String(),
			Problem: "leaves no time to write: it must be shorter than processingTime", Also: []string{"processingTime"},
		})
	}
}

func (c *readConfig) checkGather(m *mistakes) {
	oneOf(m, "gatherMode", c.GatherMode, GatherBatch, GatherImmediate)
	within(m, "batchSize", c.BatchSize, 1, 0)
	if c.given("batchCount") {
		within(m, "batchCount", c.BatchCount, 1, 0)
	}
	if c.given("maxOutstandingMessages") {
		within(m, "maxOutstandingMessages", c.MaxOutstandingMessages, 1, 0)
		if c.BatchCount > c.MaxOutstandingMessages {
			m.add(options.Error{Key: "batchCount", Value: fmt.Sprint(c.BatchCount), Problem: "is more than maxOutstandingMessages: a batch would never be full", Also: []string{"maxOutstandingMessages"}})
		}
	}
	if c.given("maxOutstandingBytes") {
		within(m, "maxOutstandingBytes", c.MaxOutstandingBytes, 1, 0)
		if c.given("batchSize") && c.BatchSize > c.MaxOutstandingBytes {
			m.add(options.Error{Key: "batchSize", Value: fmt.Sprint(c.BatchSize), Problem: "is more than maxOutstandingBytes: a batch would never be full", Also: []string{"maxOutstandingBytes"}})
		}
	}
	if c.NumWriters != Auto {
		if c.NumWriters < 1 {
			m.add(options.Error{Key: "numWriters", Value: fmt.Sprint(c.NumWriters), Problem: "is out of range", Legal: "1 or more, or auto"})
		}
	}
}

func (c *readConfig) checkSettling(m *mistakes) {
	oneOf(m, "ackMode", c.AckMode, AckAfterCommit, AckEarly)
	if c.given("ackDeadline") {
		m.lasts("ackDeadline", c.AckDeadline, minAckDeadline, maxAckDeadline)
	}
	if c.given("maxRetryTime") {
		m.lasts("maxRetryTime", c.MaxRetryTime, time.Millisecond, 0)
	}
	m.lasts("commitTimeout", c.CommitTimeout, time.Second, 0)
	m.onlyWith(c.AckMode != AckEarly, "commitTimeout", "ackMode", "with ackMode=early, which does not wait for a commit")
}

func (c *readConfig) checkSchema(m *mistakes) {
	oneOf(m, "schemaMode", c.SchemaMode, SchemaRaw, SchemaBasic, SchemaSlim, SchemaDynamic, SchemaMixed)
	oneOf(m, "metadataMode", c.MetadataMode, MetadataNone, MetadataBasic, MetadataSlim, MetadataFull)
	m.onlyWith(c.SchemaMode == SchemaDynamic || c.SchemaMode == SchemaMixed, "topic", "schemaMode",
		"without schemaMode=dynamic or mixed: only the topic's schema is used")
	if c.given("schema") {
		if err := checkUserSchema(c.Schema); err != nil {
			m.add(options.Error{Key: "schema", Problem: err.Error(), Legal: "an Avro record in JSON, or NAME TYPE, ..."})
		}
	}
}

func (c *readConfig) checkClients(m *mistakes) {
	within(m, "maxWorkers", c.MaxWorkers, 1, 0)
	within(m, "clientsPerWorker", c.ClientsPerWorker, 1, 0)
	within(m, "streams", c.Streams, 1, 0)
	if c.given("clientsPerWorker") && c.ClientsPerWorker > c.Streams && c.Streams > 0 {
		m.add(options.Error{Key: "clientsPerWorker", Value: fmt.Sprint(c.ClientsPerWorker), Problem: "is more than streams (" + strconv.Itoa(c.Streams) + "): a client would have nothing to do", Also: []string{"streams"}})
	}
	m.lasts("stallTimeout", c.StallTimeout, time.Second, 0)
}

func (c *readConfig) checkTime(m *mistakes) {
	oneOf(m, "watermarkPolicy", c.WatermarkPolicy, WatermarkPublishTime, WatermarkPublishTimeWithMaxLag, WatermarkWallTime)
	lagging := c.WatermarkPolicy == WatermarkPublishTimeWithMaxLag
	m.needs(lagging, "watermarkPolicy", string(WatermarkPublishTimeWithMaxLag), "maxLag", "")
	m.onlyWith(lagging, "maxLag", "watermarkPolicy", "without watermarkPolicy=publishTimeWithMaxLag")
	if c.given("maxLag") {
		m.lasts("maxLag", c.MaxLag, 0, 0)
	}
	if c.given("watermarkFunc") {
		if c.given("watermarkPolicy") {
			m.add(options.Error{Key: "watermarkFunc", Value: c.WatermarkFunc, Problem: "contradicts watermarkPolicy: one of them decides", Also: []string{"watermarkPolicy"}})
		}
		if _, err := watermarkFunc(c.WatermarkFunc); err != nil {
			m.add(options.Error{Key: "watermarkFunc", Value: c.WatermarkFunc, Problem: err.Error(), Legal: cmp.Or(strings.Join(watermarkFuncs(), ", "), "none is registered")})
		}
	}
	m.needs(c.given("timestampSlack"), "timestampSlack", "", "timestampAttribute", "")
	m.lasts("timestampSlack", c.TimestampSlack, 0, 0)
	m.lasts("idleThreshold", c.IdleThreshold, time.Millisecond, 0)
	emptyName(m, "timestampAttribute", c.TimestampAttribute)
	emptyName(m, "idAttribute", c.IDAttribute)
}

func emptyName(m *mistakes, key, name string) {
	if m.given(key) && name == "" {
		m.add(options.Error{Key: key, Problem: "is empty"})
	}
}

// validate joins every mistake of a write's settings; nil when there is none.
func (c *writeConfig) validate(conn Connection) error {
	m := &mistakes{given: c.given}
	m.connection(conn)
	m.resource(conn, "topic", "topics", c.Topic)
	emptyName(m, "topic", c.Topic)
	within(m, "maxWorkers", c.MaxWorkers, 0, 0)
	within(m, "clientsPerWorker", c.ClientsPerWorker, 1, 0)
	c.checkBatching(m)
	c.checkPublish(m)
	oneOf(m, "compression", c.Compression, CompressionNone, CompressionGzip)
	emptyName(m, "timestampAttribute", c.TimestampAttribute)
	emptyName(m, "idAttribute", c.IDAttribute)
	if c.given("idAttribute") && c.IDAttribute != "" && c.IDAttribute == c.TimestampAttribute {
		m.add(options.Error{Key: "idAttribute", Value: c.IDAttribute, Problem: "is also the timestampAttribute", Also: []string{"timestampAttribute"}})
	}
	m.runner(c.Runner)
	return errors.Join(m.errs...)
}

func (c *writeConfig) checkBatching(m *mistakes) {
	oneOf(m, "batching", c.Batching, BatchBundle, BatchExact, BatchStreaming)
	m.onlyWith(c.Batching == BatchExact, "batchDelay", "batching", "without batching=exact: nothing waits")
	m.onlyWith(c.Batching != BatchStreaming, "batchCount", "batching", "with batching=streaming: each message goes at once")
	m.onlyWith(c.Batching != BatchStreaming, "batchSize", "batching", "with batching=streaming: each message goes at once")
	m.lasts("batchDelay", c.BatchDelay, time.Millisecond, 0)
	if c.given("batchCount") {
		within(m, "batchCount", c.BatchCount, 1, maxRequestMessages)
	}
	within(m, "batchSize", c.BatchSize, 1, maxRequestBytes)
}

func (c *writeConfig) checkPublish(m *mistakes) {
	m.lasts("publishTimeout", c.PublishTimeout, time.Millisecond, 0)
	within(m, "maxAttempts", c.MaxAttempts, 1, 0)
	within(m, "maxOutstandingMessages", c.MaxOutstandingMessages, 1, 0)
	within(m, "maxOutstandingBytes", c.MaxOutstandingBytes, 1, 0)
	oneOf(m, "orderingFailure", c.OrderingFailure, OrderingResume, OrderingHold)
	m.onlyWith(c.OrderingKeys, "orderingFailure", "orderingKeys", "with orderingKeys=false")
}

const continuousRefused = "is refused: Beam reads in bundles; the default, processingTime, reads for ever and shows messages within 50 ms"
