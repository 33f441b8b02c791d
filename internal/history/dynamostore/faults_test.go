//go:build !race

package dynamostore

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
	"poold/internal/history/historytest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

// The store repeats throttled calls and transactions that meet others, and so counts each row once.
func TestBusyServiceIsAskedAgain(t *testing.T) {
	for name, fate := range map[string]dynamotest.Fate{
		"throttled": {Answer: "ProvisionedThroughputExceededException"},
		"met": {Answer: "TransactionCanceledException",
			Reasons: []map[string]string{{"Code": "None"}, {"Code": "TransactionConflict"}}},
		"throttled 2": {Answer: "TransactionCanceledException",
			Reasons: []map[string]string{{"Code": "ThrottlingError"}, {"Code": "None"}}},
		"under way":   {Answer: "TransactionInProgressException"},
		"broken":      {Before: true},
		"lost answer": {After: true}, // the token of the transaction prevents that it counts twice
	} {
		t.Run(name, func(t *testing.T) {
			const times = 4
			asked := map[string]int{}
			s, proxy := openThrough(t, func(operation string, body []byte) dynamotest.Fate {
				if fate.After && !bytes.Contains(body, []byte("ClientRequestToken")) || fate.Reasons != nil &&
					operation != "TransactWriteItems" {
					return dynamotest.Fate{}
				}
				if asked[operation]++; asked[operation] > times {
					return dynamotest.Fate{}
				}
				return fate
			})
			rows := orders(yesterday(), 20)
			mustAppend(t, s, rows...)
			historytest.Has(t, s, rows...)
			testkit.Equal(t, "transactions", proxy.Requests("TransactWriteItems"), times+1)
		})
	}
}

// During an outage a call fails soon. Its error gives the reason, and contains no address and no secret.
func TestErrorsOfOutages(t *testing.T) {
	dynamotest.Credentials(t.Setenv)
	server := dynamotest.Start(t)
	through := func(fate dynamotest.Fate) string {
		return dynamotest.Through(t, server, func(string, []byte) dynamotest.Fate { return fate }).URL
	}
	answer := func(code string) string { return through(dynamotest.Fate{Answer: code}) }
	silence, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	t.Cleanup(func() { _ = silence.Close() })
	var group sync.WaitGroup
	for endpoint, reason := range map[string]string{
		"http://127.0.0.1:1":                             "connection refused",
		"http://no-such.invalid":                         "the host of DynamoDB is not known",
		"http://" + silence.Addr().String():              "no answer in time",
		through(dynamotest.Fate{Before: true}):           "the connection broke or could not be made",
		answer("ProvisionedThroughputExceededException"): "DynamoDB is too busy",
		answer("UnrecognizedClientException"):            "DynamoDB answers UnrecognizedClientException",
		answer("TransactionCanceledException"):           "DynamoDB answers TransactionCanceledException",
		answer("ReplicatedWriteConflictException"):       "DynamoDB answers ReplicatedWriteConflictException",
		answer("ValidationException"): "DynamoDB refuses the call (ValidationException): " +
			"poold history init compares the table",
	} {
		s := openStore(t, targets.History{Table: "t", Endpoint: endpoint})
		group.Go(func() {
			err := s.Append(t.Context(), orders(yesterday(), 1))
			if want := "writing the history: " + history.ErrDown.Error() + ": " + reason; !errors.Is(err, history.ErrDown) ||
				err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
			_, find := s.Find(t.Context(), history.Query{By: history.BySite, Limit: 1})
			for _, text := range []string{dynamotest.Secret, "127.0.0.1", "http", "no-such", "dynamotest", "injected"} {
				if strings.Contains(errors.Join(err, find).Error(), text) {
					t.Errorf("%q is in %v", text, errors.Join(err, find))
				}
			}
		})
	}
	group.Wait()
}

// Without credentials or without a region, the error says so. It omits the text of the SDK.
func TestNoCredentials(t *testing.T) {
	dynamotest.NoCredentials(t.Setenv)
	s := openStore(t, targets.History{Endpoint: dynamotest.Start(t).URL})
	for what, err := range map[string]error{
		"check": s.Check(t.Context()), "init": s.Init(t.Context()), "append": s.Append(t.Context(), orders(yesterday(), 1)),
	} {
		if !errors.Is(err, history.ErrDown) || !strings.HasSuffix(err.Error(), ": no AWS credentials are known, "+
			"neither from the environment nor from the shared files or a role") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := Open(t.Context(), targets.History{}); err == nil || !strings.Contains(err.Error(), "no region is known") {
		t.Errorf("without a region: %v", err)
	}
	t.Setenv("AWS_PROFILE", "no-such")
	if _, err := Open(t.Context(), targets.History{Region: "eu-central-1"}); err == nil ||
		err.Error() != "dynamodb: the AWS profile no-such does not exist" {
		t.Errorf("another profile: %v", err)
	}
}

// The daemon and Init need the permissions that docs/history.md lists, and no others.
func TestPermissions(t *testing.T) {
	asked := map[string]bool{}
	s, proxy := openThrough(t, func(operation string, _ []byte) dynamotest.Fate {
		if operation == "TransactWriteItems" { // needs the permissions of its operations
			asked["PutItem"], asked["UpdateItem"] = true, true
		} else {
			asked[operation] = true
		}
		return dynamotest.Fate{}
	})
	needs := func(want string) {
		t.Helper()
		testkit.Equal(t, "needed", fmt.Sprint(slices.Sorted(maps.Keys(asked))), want)
		clear(asked)
	}
	rows := orders(yesterday(), 1)
	mustAppend(t, s, append(rows, purchase(1, time.Now()))...)
	historytest.Has(t, s, rows...)
	testkit.NoError(t, s.Check(t.Context()))
	needs("[DeleteItem DescribeTable DescribeTimeToLive PutItem Query UpdateItem]")
	testkit.NoError(t, openStore(t, targets.History{Table: "fresh", Endpoint: proxy.URL}).Init(t.Context()))
	needs("[CreateTable DescribeTable DescribeTimeToLive UpdateTimeToLive]")
}
