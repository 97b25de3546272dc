package pubsubfake_test

import (
	"strings"
	"testing"
	"testing/synctest"

	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/hamba/avro/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc/codes"
)

const (
	schemaV1 = `{"type":"record","name":"State","fields":[{"name":"name","type":"string"},{"name":"n","type":["null","long"],"default":null}]}`
	schemaV2 = `{"type":"record","name":"State","fields":[{"name":"name","type":"string"},{"name":"n","type":["null","long"],"default":null},{"name":"more","type":"string","default":""}]}`
	schemaV3 = `{"type":"record","name":"State","fields":[{"name":"name","type":"int"}]}`
	schemaID = "state"
	schema   = project + "/schemas/" + schemaID
)

func (f *fixture) schemas() *pubsub.SchemaClient {
	f.Helper()
	c, err := pubsub.NewSchemaClient(f.ctx, option.WithGRPCConn(f.pub.Connection())) //nolint:staticcheck // the only way to its connection
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func avroSchema(definition string) *pubsubpb.Schema {
	return &pubsubpb.Schema{Name: schema, Type: pubsubpb.Schema_AVRO, Definition: definition}
}

func (f *fixture) schemaTopic(c *pubsub.SchemaClient, enc pubsubpb.Encoding) string {
	f.Helper()
	s, err := c.CreateSchema(f.ctx, &pubsubpb.CreateSchemaRequest{Parent: project, SchemaId: schemaID, Schema: avroSchema(schemaV1)})
	must(f.T, err)
	_, err = f.pub.CreateTopic(f.ctx, &pubsubpb.Topic{Name: topicB, SchemaSettings: &pubsubpb.SchemaSettings{Schema: schema, Encoding: enc}})
	must(f.T, err)
	must(f.T, f.srv.AddSubscription(subB, topicB))
	return s.RevisionId
}

func (f *fixture) publishB(data string) error {
	_, err := f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: topicB, Messages: []*pubsubpb.PubsubMessage{text(data)}})
	return err
}

func TestMessagesAreValidatedAndMarked(t *testing.T) {
	binary, err := avro.Marshal(avro.MustParse(schemaV1), map[string]any{"name": "x", "n": int64(7)})
	must(t, err)
	for enc, bodies := range map[pubsubpb.Encoding]struct{ good, bad []string }{
		pubsubpb.Encoding_JSON: {
			good: []string{`{"name":"x","n":null}`, `{"n":{"long":7},"name":"x"}`, `{"name":"x","n":null,"z":1}`},
			bad:  []string{`{"name":"x","n":7}`, `{"name":1,"n":null}`, `{"n":null}`, `{"name":"x"}`, `{"name":"x","n":{"int":1}}`, `[`, `null`},
		},
		pubsubpb.Encoding_BINARY: {
			good: []string{string(binary)},
			bad:  []string{string(binary[:len(binary)-1]), "\x01", ""},
		},
	} {
		t.Run(enc.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := setUp(t, nil)
				c := f.schemas()
				rev := f.schemaTopic(c, enc)
				for _, b := range bodies.good {
					must(t, f.publishB(b))
				}
				for _, b := range bodies.bad {
					f.wantCode(f.publishB(b), codes.InvalidArgument)
					_, err := c.ValidateMessage(f.ctx, &pubsubpb.ValidateMessageRequest{
						Parent: project, SchemaSpec: &pubsubpb.ValidateMessageRequest_Name{Name: schema}, Message: []byte(b), Encoding: enc,
					})
					f.wantCode(err, codes.InvalidArgument)
				}
				got := f.pull(subB, 10)
				f.wantBodies(got, bodies.good...)
				a := got[0].Message.Attributes
				if a["googclient_schemaname"] != schema || a["googclient_schemaencoding"] != enc.String() || a["googclient_schemarevisionid"] != rev {
					t.Fatalf("%v", a)
				}
			})
		})
	}
}

func TestSchemaRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		c := f.schemas()
		first := f.schemaTopic(c, pubsubpb.Encoding_JSON)
		commit := func(def string) (*pubsubpb.Schema, error) {
			return c.CommitSchema(f.ctx, &pubsubpb.CommitSchemaRequest{Name: schema, Schema: avroSchema(def)})
		}
		_, err := commit(schemaV3)
		f.wantCode(err, codes.InvalidArgument)
		_, err = commit("{")
		f.wantCode(err, codes.InvalidArgument)
		second, err := commit(schemaV2)
		must(t, err)
		must(t, f.publishB(`{"name":"old","n":null}`))
		must(t, f.publishB(`{"name":"new","n":null,"more":"m"}`))
		got := f.pull(subB, 10)
		if a, b := got[0].Message.Attributes["googclient_schemarevisionid"], got[1].Message.Attributes["googclient_schemarevisionid"]; a != first || b != second.RevisionId {
			t.Fatalf("%s %s", a, b)
		}
		back, err := c.RollbackSchema(f.ctx, &pubsubpb.RollbackSchemaRequest{Name: schema, RevisionId: first})
		must(t, err)
		if back.Definition != schemaV1 || back.RevisionId == first {
			t.Fatalf("%v", back)
		}
		old, err := c.GetSchema(f.ctx, &pubsubpb.GetSchemaRequest{Name: schema + "@" + second.RevisionId})
		must(t, err)
		if old.Definition != schemaV2 {
			t.Fatalf("%v", old)
		}
		n := 0
		for s, err := range c.ListSchemaRevisions(f.ctx, &pubsubpb.ListSchemaRevisionsRequest{Name: schema}).All() {
			must(t, err)
			if s.Definition != "" {
				t.Fatal("definition in the basic view")
			}
			n++
		}
		if n != 3 {
			t.Fatalf("%d revisions", n)
		}
		_, err = c.DeleteSchemaRevision(f.ctx, &pubsubpb.DeleteSchemaRevisionRequest{Name: schema + "@" + second.RevisionId})
		must(t, err)
		must(t, f.publishB(`{"name":"new","n":null,"more":"m"}`))
		if m := f.pull(subB, 1)[0].Message; m.Attributes["googclient_schemarevisionid"] != back.RevisionId {
			t.Fatalf("%v is not of the revision %v that is left", m, back)
		}
		must(t, c.DeleteSchema(f.ctx, &pubsubpb.DeleteSchemaRequest{Name: schema}))
		f.wantCode(f.publishB(`{"name":"old","n":null}`), codes.NotFound)
		topic, err := f.pub.GetTopic(f.ctx, &pubsubpb.GetTopicRequest{Topic: topicB})
		must(t, err)
		if topic.SchemaSettings.Schema != "_deleted-schema_" {
			t.Fatalf("%v", topic)
		}
	})
}

func TestTopicTakesOnlyItsRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		c := f.schemas()
		first := f.schemaTopic(c, pubsubpb.Encoding_JSON)
		_, err := c.CommitSchema(f.ctx, &pubsubpb.CommitSchemaRequest{Name: schema, Schema: avroSchema(schemaV2)})
		must(t, err)
		const name = project + "/topics/first-only"
		set := &pubsubpb.SchemaSettings{Schema: schema, Encoding: pubsubpb.Encoding_JSON, FirstRevisionId: first, LastRevisionId: first}
		_, err = f.pub.CreateTopic(f.ctx, &pubsubpb.Topic{Name: name, SchemaSettings: set})
		must(t, err)
		_, err = f.pub.Publish(f.ctx, &pubsubpb.PublishRequest{Topic: name, Messages: []*pubsubpb.PubsubMessage{text(`{"name":"new","n":null,"more":"m"}`)}})
		must(t, err)
		if a := f.srv.Published(name)[0].Attributes; a["googclient_schemarevisionid"] != first {
			t.Fatalf("%v", a)
		}
		set.LastRevisionId = "00000000"
		_, err = f.pub.CreateTopic(f.ctx, &pubsubpb.Topic{Name: name + "2", SchemaSettings: set})
		f.wantCode(err, codes.NotFound)
	})
}

func TestSchemasOfAllTypes(t *testing.T) {
	const def = `{"type":"record","name":"All","namespace":"ns","fields":[
		{"name":"b","type":"boolean"},{"name":"i","type":"int"},{"name":"l","type":"long"},{"name":"f","type":"float"},{"name":"d","type":"double"},
		{"name":"y","type":"bytes"},{"name":"x","type":{"type":"fixed","name":"Two","size":2}},{"name":"e","type":{"type":"enum","name":"E","symbols":["A","B"]}},
		{"name":"a","type":{"type":"array","items":"int"}},{"name":"m","type":{"type":"map","values":"string"}},
		{"name":"u","type":["null",{"type":"record","name":"In","fields":[{"name":"e","type":"E"}]}]}]}`
	const good = `{"b":true,"i":1,"l":9007199254740993,"f":1.5,"d":1e3,"y":"\u00ff","x":"ab","e":"A","a":[1,2],"m":{"k":"v"},"u":{"ns.In":{"e":"B"}}}`
	synctest.Test(t, func(t *testing.T) {
		f := setUp(t, nil)
		c := f.schemas()
		check := func(msg string) error {
			_, err := c.ValidateMessage(f.ctx, &pubsubpb.ValidateMessageRequest{
				Parent: project, SchemaSpec: &pubsubpb.ValidateMessageRequest_Schema{Schema: avroSchema(def)},
				Message: []byte(msg), Encoding: pubsubpb.Encoding_JSON,
			})
			return err
		}
		must(t, check(good))
		for _, change := range [][2]string{
			{`"b":true`, `"b":1`},
			{`"i":1`, `"i":2147483648`},
			{`"l":9007199254740993`, `"l":1.5`},
			{`"f":1.5`, `"f":"x"`},
			{`"y":"\u00ff"`, `"y":"\u0100"`},
			{`"x":"ab"`, `"x":"abc"`},
			{`"e":"A"`, `"e":"C"`},
			{`[1,2]`, `[1,"2"]`},
			{`{"k":"v"}`, `{"k":1}`},
			{`"ns.In"`, `"In"`},
			{`"e":"B"`, `"e":"C"`},
		} {
			f.wantCode(check(replace(good, change[0], change[1])), codes.InvalidArgument)
		}
	})
}

func replace(s, old, with string) string { return strings.Replace(s, old, with, 1) }
