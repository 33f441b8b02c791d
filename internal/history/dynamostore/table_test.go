//go:build !race

package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// Init creates the table, its index and its time to live. Init may be repeated, even concurrently.
// After a crash, a repeated Init creates the missing parts.
func TestInit(t *testing.T) {
	dynamotest.Credentials(t)
	server := dynamotest.Start(t)
	s := openStore(t, Options{Endpoint: server.URL})
	if err := s.Check(t.Context()); !errors.Is(err, history.ErrDown) || !strings.Contains(err.Error(), "the table CaptchaSolves does not exist: poold history init") {
		t.Errorf("before: %v", err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := s.Init(t.Context(), false); err != nil {
				t.Errorf("init: %v", err)
			}
		})
	}
	group.Wait()
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("after: %v", err)
	}
	r := record(yesterday(), 0)
	mustWrite(t, s, r)
	describe := func() *types.TableDescription {
		out, err := s.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("CaptchaSolves")})
		if err != nil {
			t.Fatal(err)
		}
		return out.Table
	}
	if d := describe(); d.BillingModeSummary.BillingMode != types.BillingModePayPerRequest || d.StreamSpecification != nil {
		t.Errorf("the table: %+v", d)
	}
	expiry, err := s.expiry(t.Context())
	if err != nil || expiry != "ttl" {
		t.Errorf("expires by %q, %v", expiry, err)
	}
	for range 2 {
		if err := s.Init(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if d := describe().StreamSpecification; d == nil || !aws.ToBool(d.StreamEnabled) || d.StreamViewType != types.StreamViewTypeNewImage {
		t.Errorf("the stream: %+v", d)
	}
	if err := s.Init(t.Context(), false); err != nil { // this call keeps the stream
		t.Fatal(err)
	}
	if found, ok, err := s.Solve(t.Context(), r.ID); err != nil || !ok || found != r {
		t.Errorf("what was there: %v, %v, %v", found, ok, err)
	}
	streamed := openStore(t, Options{Table: "streamed", Endpoint: server.URL})
	if err := errors.Join(streamed.Init(t.Context(), true), streamed.Check(t.Context())); err != nil {
		t.Error(err)
	}
}

// Check and Init name all differences of a table and change nothing.
func TestOtherShapesAreNamed(t *testing.T) {
	dynamotest.Credentials(t)
	server := dynamotest.Start(t)
	schema := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash}, {AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
		}
	}
	attribute := func(name string, kind types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: kind}
	}
	for _, c := range []struct {
		name        string
		change      func(*dynamodb.CreateTableInput)
		expires     string
		init, check []string // texts in the errors of Init and Check; nil = no error
	}{
		{"another key", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = schema("id", "SK")
			in.AttributeDefinitions[0] = attribute("id", types.ScalarAttributeTypeS)
		}, "ttl", []string{"its keys are id (S), SK (S), not PK (S), SK (S)"}, []string{"its keys are id (S), SK (S), not PK (S), SK (S)"}},
		{"a number and no sort key", func(in *dynamodb.CreateTableInput) {
			in.KeySchema = in.KeySchema[:1]
			in.AttributeDefinitions = append(in.AttributeDefinitions[2:], attribute("PK", types.ScalarAttributeTypeN))
		}, "ttl", []string{"its keys are PK (N), not"}, []string{"its keys are PK (N), not"}},
		{"no index", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes, in.AttributeDefinitions = nil, in.AttributeDefinitions[:2]
		}, "ttl", []string{"it has no index GSI1"}, []string{"it has no index GSI1"}},
		{"another index", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].IndexName = aws.String("status-index")
		}, "ttl", []string{"it has no index GSI1"}, []string{"it has no index GSI1"}},
		{"an index with other keys, of keys only", func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].KeySchema = schema("GSI1SK", "GSI1PK")
			in.GlobalSecondaryIndexes[0].Projection.ProjectionType = types.ProjectionTypeKeysOnly
		}, "ttl",
			[]string{"the keys of its index GSI1 are GSI1SK (S), GSI1PK (S), not GSI1PK (S), GSI1SK (S)", "shows KEYS_ONLY of the attributes, not ALL"},
			[]string{"the keys of its index GSI1 are GSI1SK (S), GSI1PK (S), not GSI1PK (S), GSI1SK (S)", "shows KEYS_ONLY of the attributes, not ALL"}},
		{"expires by another attribute", func(*dynamodb.CreateTableInput) {}, "expires_at",
			[]string{"its time to live is by expires_at, not by ttl"}, []string{"its time to live is by expires_at, not by ttl"}},
		{"does not expire", func(*dynamodb.CreateTableInput) {}, "", nil, []string{"its time to live is off"}},
		{"provisioned", func(in *dynamodb.CreateTableInput) {
			in.BillingMode = types.BillingModeProvisioned
			in.ProvisionedThroughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(5)}
			in.GlobalSecondaryIndexes[0].ProvisionedThroughput = in.ProvisionedThroughput
		}, "ttl", []string{"its billing is provisioned, not on demand"}, nil},
		{"another stream", func(in *dynamodb.CreateTableInput) {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeKeysOnly}
		}, "ttl", []string{"its stream shows KEYS_ONLY, not NEW_IMAGE"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, Options{Table: "test-" + rand.Text(), Endpoint: server.URL})
			in := &dynamodb.CreateTableInput{
				TableName: aws.String(s.table), BillingMode: types.BillingModePayPerRequest, KeySchema: schema("PK", "SK"),
				AttributeDefinitions: []types.AttributeDefinition{
					attribute("PK", types.ScalarAttributeTypeS), attribute("SK", types.ScalarAttributeTypeS),
					attribute("GSI1PK", types.ScalarAttributeTypeS), attribute("GSI1SK", types.ScalarAttributeTypeS),
				},
				GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
					IndexName: aws.String("GSI1"), KeySchema: schema("GSI1PK", "GSI1SK"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
				}},
			}
			c.change(in)
			if _, err := s.client.CreateTable(t.Context(), in); err != nil {
				t.Fatal(err)
			}
			if c.expires != "" {
				if _, err := s.client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
					TableName:               aws.String(s.table),
					TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(c.expires), Enabled: aws.Bool(true)},
				}); err != nil {
					t.Fatal(err)
				}
			}
			checkShapeError(t, "check", s.table, s.Check(t.Context()), c.check)
			checkShapeError(t, "init", s.table, s.Init(t.Context(), true), c.init)
			expiry, err := s.expiry(t.Context())
			if want := c.expires; err != nil || c.init != nil && expiry != want || c.init == nil && expiry != "ttl" {
				t.Errorf("now it expires by %q, %v", expiry, err)
			}
		})
	}
}

// checkShapeError fails the test unless the error is about the shape of the table and contains all
// texts.
func checkShapeError(t *testing.T, what, table string, err error, texts []string) {
	t.Helper()
	if texts == nil {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if err == nil || errors.Is(err, history.ErrDown) || !strings.HasPrefix(err.Error(), "dynamodb: the table "+table+" is of another shape: ") ||
		strings.Count(err.Error(), ";") != len(texts)-1 {
		t.Errorf("%s: %v", what, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, want %q", what, err, text)
		}
	}
}

// During an outage a call fails soon. Its error gives the reason and contains neither an address nor
// a secret.
func TestErrorsOfOutages(t *testing.T) {
	dynamotest.Credentials(t)
	server := dynamotest.Start(t)
	answer := func(code string) string {
		return dynamotest.Through(t, server, func(string, []byte) dynamotest.Fate { return dynamotest.Fate{Answer: code} }).URL
	}
	cut := dynamotest.Through(t, server, func(string, []byte) dynamotest.Fate { return dynamotest.Fate{Before: true} })
	for _, c := range []struct{ name, endpoint, reason string }{
		{"nobody there", "http://127.0.0.1:1", "connection refused"},
		{"no such host", "http://no-such.invalid", "the host of DynamoDB is not known"},
		{"silence", silentServer(t), "no answer in time"},
		{"cut", cut.URL, "the connection broke or could not be made"},
		{"other credentials", answer("UnrecognizedClientException"), "DynamoDB refuses the credentials (UnrecognizedClientException)"},
		{"old credentials", answer("ExpiredTokenException"), "DynamoDB refuses the credentials (ExpiredTokenException)"},
		{"not allowed", answer("AccessDeniedException"), "the credentials do not allow it (AccessDeniedException)"},
		{"a bad call", answer("ValidationException"), "poold history init names the differences of the table"},
		{"cancelled", answer("TransactionCanceledException"), "DynamoDB cancels the transaction"},
		{"another answer", answer("ReplicatedWriteConflictException"), "DynamoDB answers ReplicatedWriteConflictException"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := openStore(t, Options{Table: "t", Endpoint: c.endpoint})
			began := time.Now()
			err := s.Write(t.Context(), records(yesterday(), 1))
			if took := time.Since(began); took > callLimit+2*time.Second {
				t.Errorf("took %v", took)
			}
			if !errors.Is(err, history.ErrDown) || !strings.HasPrefix(err.Error(), "writing records: ") || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("writing: %v", err)
			}
			checkNoSecret(t, err)
		})
	}
	if n := cut.Requests("TransactWriteItems"); n != mostBroken {
		t.Errorf("a call over broken connections was tried %d times, want %d", n, mostBroken)
	}
}

func checkNoSecret(t *testing.T, err error) {
	t.Helper()
	for _, text := range []string{dynamotest.Secret, "127.0.0.1", "http", "no-such", "dynamotest", "injected"} {
		if strings.Contains(err.Error(), text) {
			t.Errorf("%q is in %v", text, err)
		}
	}
}

// silentServer returns the address of a server that accepts connections and does not respond.
func silentServer(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return "http://" + l.Addr().String()
}

// Without credentials or without a region, the error gives this reason. It omits the text of the SDK.
func TestNoCredentials(t *testing.T) {
	dynamotest.NoCredentials(t)
	server := dynamotest.Start(t)
	s := openStore(t, Options{Endpoint: server.URL})
	for what, err := range map[string]error{
		"check": s.Check(t.Context()), "init": s.Init(t.Context(), false), "writing": s.Write(t.Context(), records(yesterday(), 1)),
	} {
		if !errors.Is(err, history.ErrDown) || !strings.HasSuffix(err.Error(), "no AWS credentials are known, neither from the environment nor from the shared files or a role") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "no region is known") {
		t.Errorf("without a region: %v", err)
	}
	openStore(t, Options{Region: "eu-central-1"})
	t.Setenv("AWS_PROFILE", "no-such")
	if _, err := Open(t.Context(), Options{Region: "eu-central-1"}); err == nil || err.Error() != "dynamodb: the AWS profile no-such does not exist" {
		t.Errorf("another profile: %v", err)
	}
}
