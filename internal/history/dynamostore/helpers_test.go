//go:build !race

package dynamostore

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

func openStore(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func newTable(t testing.TB, endpoint string) string {
	t.Helper()
	table := "test-" + rand.Text()
	if err := openStore(t, Options{Table: table, Endpoint: endpoint}).Init(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return table
}

// openThrough starts an emulator and opens a store on a new table. A proxy forwards the requests of
// the store to the emulator. The function judge decides the fate of each request.
func openThrough(t testing.TB, judge func(operation string, body []byte) dynamotest.Fate) (*Store, *dynamotest.Proxy) {
	t.Helper()
	dynamotest.Credentials(t)
	server := dynamotest.Start(t)
	proxy := dynamotest.Through(t, server, judge)
	return openStore(t, Options{Table: newTable(t, server.URL), Endpoint: proxy.URL}), proxy
}

// query queries the table or an index with a direct call of the SDK.
func query(t testing.TB, s *Store, index *string, condition string, values map[string]string, newestFirst bool, limit int32) []item {
	t.Helper()
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), IndexName: index, KeyConditionExpression: aws.String(condition),
		ExpressionAttributeValues: map[string]types.AttributeValue{}, ScanIndexForward: aws.Bool(!newestFirst), Limit: aws.Int32(limit),
	}
	for name, value := range values {
		in.ExpressionAttributeValues[name] = &types.AttributeValueMemberS{Value: value}
	}
	out, err := s.client.Query(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var items []item
	for _, i := range out.Items {
		items = append(items, i)
	}
	return items
}

// get reads an item with a direct call of the SDK.
func get(t testing.TB, s *Store, key item) item {
	t.Helper()
	out, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(s.table), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}

// record returns the record of a solve. The argument n selects its identity, target, type, task and
// end.
func record(ended time.Time, n int, changes ...func(*history.Record)) history.Record {
	hows := []history.How{history.Solved, history.Solved, history.Failed, history.Discarded, history.Refused, history.Lost}
	r := history.Record{
		Identity: captcha.ID(fmt.Sprintf("%032x", n)), Target: fmt.Sprint("target-", n%40), Owner: "qa@example.com",
		Type: captcha.Types()[n%4], Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: "https://staging.example.com/login",
		Provider: "captchaai", Choice: "cheapest", Task: fmt.Sprint(74327409378 + n), How: hows[n%len(hows)],
		Placed: ended.Add(-20345 * time.Millisecond), Submitted: ended.Add(-20123 * time.Millisecond), Ended: ended,
		Solved: ended.Add(-5 * time.Second), Polls: 3, Price: 2_990_000,
	}
	r.ID = rand.Text() + "." + string(r.Identity)
	for _, change := range changes {
		change(&r)
	}
	return r
}

// records returns n records, a millisecond apart.
func records(ended time.Time, n int) []history.Record {
	all := make([]history.Record, n)
	for i := range all {
		all[i] = record(ended.Add(time.Duration(i)*time.Millisecond), i)
	}
	return all
}

// yesterday returns yesterday's noon, so that no test crosses midnight.
func yesterday() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour) }

func dayOf(records []history.Record) history.Day {
	day := history.Day{Types: map[captcha.Type]history.Figures{}, Targets: map[history.Owned]history.Figures{}}
	for _, r := range records {
		owned := history.Owned{Target: r.Target, Owner: r.Owner}
		day.Types[r.Type] = day.Types[r.Type].Plus(r.Figures())
		day.Targets[owned] = day.Targets[owned].Plus(r.Figures())
	}
	return day
}

// site reads all records of a site, page by page.
func site(t testing.TB, s *Store, sitekey string) (found []history.Record) {
	t.Helper()
	q := history.Query{Limit: history.MostLimit}
	for {
		page, err := s.Site(t.Context(), sitekey, q)
		if err != nil {
			t.Fatal(err)
		}
		if found = append(found, page.Records...); !page.More {
			return found
		}
		last := found[len(found)-1]
		q.Before = history.Position{Ended: last.Ended, ID: last.ID}
	}
}

func mustWrite(t testing.TB, s *Store, records ...history.Record) {
	t.Helper()
	if err := s.Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// entries returns n entries, a millisecond apart.
func entries(at time.Time, n int) []history.Entry {
	all := make([]history.Entry, n)
	for i := range all {
		all[i] = history.Entry{
			ID: rand.Text(), At: at.Add(time.Duration(i) * time.Millisecond), Key: "ci-login", Action: history.Taken,
			Target: "staging-login", Token: rand.Text() + "." + rand.Text(), Source: "pool",
		}
	}
	return all
}

// mustNote writes entries and fails the test after an error.
func mustNote(t testing.TB, s *Store, entries ...history.Entry) {
	t.Helper()
	if err := s.WriteEntries(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}
