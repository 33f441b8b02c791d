//go:build !race

package dynamostore

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/dynamotest"
	"poold/internal/history/historytest"
	"poold/internal/targets"
	"poold/internal/testkit"
)

func openStore(t testing.TB, o targets.History) *Table {
	t.Helper()
	o.Table, o.Keep = cmp.Or(o.Table, "CaptchaSolves"), cmp.Or(o.Keep, 90*24*time.Hour)
	s, err := Open(t.Context(), o)
	testkit.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func newTable(t testing.TB, endpoint string) string {
	t.Helper()
	table := "test-" + rand.Text()
	testkit.NoError(t, openStore(t, targets.History{Table: table, Endpoint: endpoint}).Init(t.Context()))
	return table
}

// openThrough starts an emulator and opens a store on a new table. A proxy forwards the requests of the store. The
// function judge decides the fate of each one.
func openThrough(t testing.TB, judge func(operation string, body []byte) dynamotest.Fate) (*Table, *dynamotest.Proxy) {
	t.Helper()
	dynamotest.Credentials(t.Setenv)
	server := dynamotest.Start(t)
	proxy := dynamotest.Through(t, server, judge)
	return openStore(t, targets.History{Table: newTable(t, server.URL), Endpoint: proxy.URL, ActiveItems: true}), proxy
}

// yesterday returns yesterday's noon, so that no test crosses midnight.
func yesterday() time.Time { return time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour) }

// orders returns the rows of n orders, a millisecond apart.
func orders(ended time.Time, n int) (rows []history.Row) {
	for i := range n {
		rows = append(rows, historytest.NthOrder(i, ended.Add(time.Duration(i)*time.Millisecond)))
	}
	return rows
}

// purchase returns the row of an order in flight, whose row in the end is historytest.NthOrder of the same n and time.
func purchase(n int, ended time.Time) history.Row {
	return historytest.NthOrder(n, ended, historytest.InFlight)
}

func mustAppend(t testing.TB, s *Table, rows ...history.Row) {
	t.Helper()
	for batch := range slices.Chunk(rows, history.MostBatch) {
		testkit.NoError(t, s.Append(t.Context(), batch))
	}
}

// query queries the table or an index, newest first, as a program does that knows only the table.
func query(t testing.TB, s *Table, index *string, condition string, values map[string]string) (items []item) {
	t.Helper()
	out, err := s.client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(s.table), IndexName: index, KeyConditionExpression: aws.String(condition),
		ExpressionAttributeValues: marshal(values), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(50),
	})
	if err == nil {
		err = attributevalue.UnmarshalListOfMaps(out.Items, &items)
	}
	testkit.NoError(t, err)
	return items
}

// A program that knows only the table needs one query for each of four lists: the newest 50 solves of a site, the
// figures of a day, the active tasks, and the tasks with a status.
func TestOtherProgramsReadTheTable(t *testing.T) {
	s, _ := openThrough(t, nil)
	rows := orders(yesterday(), 60)
	now := time.Now().UTC().Truncate(time.Millisecond)
	mustAppend(t, s, append(rows, purchase(60, now))...)
	newest := query(t, s, nil, "PK = :pk AND begins_with(SK, :prefix)",
		map[string]string{":pk": "SITE#" + rows[0].Sitekey, ":prefix": "SOLVE#"})
	if len(newest) != 50 {
		t.Fatalf("%d are the newest of the site", len(newest))
	}
	for n, i := range newest {
		testkit.Equal(t, fmt.Sprint("row ", n, " of the site"), i.text("SK"), "SOLVE#"+stamp(rows[59-n].At)+"#"+rows[59-n].ID)
	}
	day := query(t, s, nil, "PK = :pk AND SK = :sk",
		map[string]string{":pk": "STATS#" + yesterday().Format(time.DateOnly), ":sk": "TYPE#" + string(captcha.Types()[0])})
	want := item{ // every fourth order is of this type, and three of these have each outcome
		"PK": "STATS#" + yesterday().Format(time.DateOnly), "SK": "TYPE#" + string(captcha.Types()[0]),
		"captcha_type": string(captcha.Types()[0]), "total_solves": 15.0, "successful": 3.0, "failed": 9.0, "discarded": 3.0,
		"refused": 3.0, "lost": 3.0, "unpriced": 2.0, "total_elapsed": 6 * 20_000.0, "spent": 16 * 1_234_567.0,
	}
	if len(day) != 1 || !maps.Equal(day[0], want) {
		t.Errorf("a day's figures are %v, want %v", day, want)
	}
	active := query(t, s, aws.String("GSI1"), "GSI1PK = :pk", map[string]string{":pk": "STATUS#polling"})
	if len(active) != 1 || active[0].text("PK") != "ACTIVE#"+purchase(60, now).ID || active[0].text("SK") != "TASK" ||
		active[0].text("status") != "polling" {
		t.Errorf("active tasks: %v", active)
	}
	values := map[string]string{":pk": "STATUS#error", ":from": stamp(rows[30].At)}
	if found := query(t, s, aws.String("GSI1"), "GSI1PK = :pk AND GSI1SK > :from", values); len(found) != 24 ||
		found[0].text("SK") != "META" {
		t.Errorf("%d ended otherwise since then, want 24", len(found))
	}
}

// Items have the attributes that other programs expect, and no empty texts.
func TestAttributes(t *testing.T) {
	s, _ := openThrough(t, nil)
	var o history.Order
	row := historytest.NthOrder(5, yesterday(), func(filled *history.Order) {
		filled.Price = 2_990_000
		o = *filled
	})
	at, id, ttl := stamp(yesterday()), o.ID, float64(yesterday().Add(90*24*time.Hour).Unix())
	h := history.Handout{ID: "17-1", At: o.EndedAt, Key: "ci", Action: history.Missed, Target: o.Target,
		Price: history.MoneyUnknown}
	mustAppend(t, s, row, h.Row())
	solve := item{
		"PK": "SOLVE#" + id, "SK": "META", "GSI1PK": "STATUS#solved", "GSI1SK": at + "#" + id, "order": id,
		"captcha_type": string(o.Type), "sitekey": o.Sitekey, "pageurl": o.Pageurl, "status": "solved", "outcome": "solved",
		"placed_at": o.PlacedAt.String(), "submitted_at": o.SubmittedAt.String(), "solved_at": o.SolvedAt.String(),
		"ended_at": at, "elapsed_ms": 20000.0, "polls": 5.0, "project": o.Owner, "target": o.Target, "provider": o.Provider,
		"task": o.Task, "ended_by": o.EndedBy, "price": 0.00299, "choice": o.Choice, "ttl": ttl,
	}
	for _, want := range []item{
		solve, solve.copyTo(key{"SOLVE#" + o.Task, "META"}), solve.copyTo(key{"SITE#" + o.Sitekey, "SOLVE#" + at + "#" + id}),
		{"PK": "KEY#ci", "SK": at + "#17-1", "id": "17-1", "at": at, "key": "ci", "action": "missed", "target": o.Target,
			"price": nil, "ttl": ttl},
		{"PK": "STATS#" + at[:10], "SK": "KEY#ci", "key": "ci", "missed": 1.0, "unpriced": 1.0, "ttl": ttl + 12*3600},
		{"PK": "STATS#" + at[:10], "SK": "TARGET#" + o.Target + "#" + o.Owner, "target": o.Target, "project": o.Owner,
			"total_solves": 1.0, "successful": 1.0, "failed": 0.0, "total_elapsed": 20000.0, "spent": 2_990_000.0},
	} {
		got := query(t, s, nil, "PK = :pk AND SK = :sk", map[string]string{":pk": want.text("PK"), ":sk": want.text("SK")})
		if len(got) != 1 || !maps.Equal(got[0], want) {
			t.Errorf("got %v\nwant %v", got, want)
		}
	}
}

// An order in flight has an item for ten minutes, until it ends, whatever the order of both rows in a batch.
func TestActiveOrders(t *testing.T) {
	s, _ := openThrough(t, nil)
	now := time.Now().UTC().Truncate(time.Millisecond)
	var all, ended []history.Row
	for n := range 4 {
		at := now.Add(-time.Minute + time.Duration(n)*time.Second)
		all, ended = append(all, purchase(n, at)), append(ended, historytest.NthOrder(n, at))
	}
	active := func(want ...history.Row) {
		t.Helper()
		var got, wanted []string
		for _, i := range query(t, s, aws.String("GSI1"), "GSI1PK = :pk", map[string]string{":pk": "STATUS#polling"}) {
			got = append(got, fmt.Sprint(i.key(), i["ttl"]))
		}
		for _, r := range slices.Backward(want) {
			wanted = append(wanted, fmt.Sprint(key{"ACTIVE#" + r.ID, "TASK"}, float64(r.At.Add(10*time.Minute).Unix())))
		}
		testkit.DeepEqual(t, "active orders", got, wanted)
	}
	mustAppend(t, s, append(all[:2:2], purchase(9, now.Add(-11*time.Minute)))...)
	active(all[:2]...)
	mustAppend(t, s, ended[0], all[0], ended[2], all[2], all[3])
	active(all[1], all[3])
	mustAppend(t, s, ended...)
	active()
	mustAppend(t, openStore(t, targets.History{Table: s.table, Endpoint: *s.client.Options().BaseEndpoint}), all...)
	active()
}

// No page and no day contains an item after its ttl (even if DynamoDB has not deleted it yet), or an item of another
// program.
func TestItemsThatNeverShow(t *testing.T) {
	s, _ := openThrough(t, nil)
	h := history.Handout{ID: "17-1", At: history.Time{Time: yesterday()}, Key: "ci", Action: history.Missed, Target: "a"}
	mustAppend(t, s, append(orders(yesterday(), 30), h.Row())...)
	site := orders(yesterday(), 1)[0].Sitekey
	change := []item{{"PK": "SITE#" + site, "SK": "SOLVE#" + stamp(time.Now()), "status": "solved", "elapsed_ms": "?"}}
	for _, pk := range []string{"SITE#" + site, "KEY#ci", "STATS#" + stamp(yesterday())[:10]} {
		for _, i := range query(t, s, nil, "PK = :pk", map[string]string{":pk": pk}) {
			if i["ttl"] != nil {
				i["ttl"] = time.Now().Unix()
				change = append(change, i)
			}
		}
	}
	for _, i := range change {
		_, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.table, Item: marshal(i)})
		testkit.NoError(t, err)
	}
	for by, value := range map[history.By]string{history.BySite: site, history.ByKey: "ci"} {
		if page, err := s.Find(t.Context(), history.Query{By: by, Value: value, Limit: 1}); err != nil ||
			len(page.Rows) > 0 || page.More {
			t.Errorf("by %s: %s, more: %v, %v", by, page.Rows, page.More, err)
		}
	}
	sums, err := s.Days(t.Context(), yesterday())
	if err != nil || len(sums) != 11 ||
		slices.ContainsFunc(sums, func(s history.Sum) bool { return s.Scope == history.ScopeKey }) {
		t.Errorf("the day: %d sums, %v, %v", len(sums), sums, err)
	}
}

// Three replicas over one table pass the suite, with items of orders in flight and without.
func TestStore(t *testing.T) {
	server := dynamotest.Start(t)
	dynamotest.Credentials(t.Setenv)
	active := false
	historytest.Test(t, func(t testing.TB, orders, handouts time.Duration) (replicas []history.Sink) {
		active = !active
		o := targets.History{Table: newTable(t, server.URL), Endpoint: server.URL, Keep: orders, Audit: handouts,
			ActiveItems: active}
		for range 3 {
			replicas = append(replicas, openStore(t, o))
		}
		return replicas
	})
}

// Init creates the table, its index and its time to live. It may be repeated, even concurrently, and keeps existing
// data.
func TestInit(t *testing.T) {
	dynamotest.Credentials(t.Setenv)
	server := dynamotest.Start(t)
	s := openStore(t, targets.History{Endpoint: server.URL})
	if err := s.Check(t.Context()); err == nil ||
		!strings.HasSuffix(err.Error(), "CaptchaSolves does not exist: poold history init makes it") {
		t.Errorf("before: %v", err)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := s.Init(t.Context()); err != nil {
				t.Errorf("init: %v", err)
			}
		})
	}
	group.Wait()
	rows := orders(yesterday(), 1)
	mustAppend(t, s, rows...)
	testkit.NoError(t, errors.Join(s.Init(t.Context()), s.Check(t.Context())))
	table, expiry, err := s.describe(t.Context())
	if err != nil || expiry != "ttl" || table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("the table: %+v, expires by %q, %v", table, expiry, err)
	}
	historytest.Has(t, s, rows...)
}

// Check and Init name the other shape of a table and change nothing.
func TestOtherShapesAreNamed(t *testing.T) {
	dynamotest.Credentials(t.Setenv)
	server := dynamotest.Start(t)
	for name, c := range map[string]struct {
		change  func(*dynamodb.CreateTableInput)
		expires string
		has     string // in the errors of Init and Check; "" = no error of Init
	}{
		"other keys": {func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = in.KeySchema[:1], slices.Delete(in.AttributeDefinitions, 1, 2)
			in.KeySchema[0].AttributeName, in.AttributeDefinitions[0] = aws.String("id"), types.AttributeDefinition{
				AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeN}
		}, "ttl", "it has keys id (N); index GSI1"},
		"no index, does not expire": {func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes, in.AttributeDefinitions = nil, in.AttributeDefinitions[:2]
		}, "", "it has keys PK (S), SK (S); time to live by "},
		"an index with other keys, of keys only": {func(in *dynamodb.CreateTableInput) {
			slices.Reverse(in.AttributeDefinitions)
			keys := in.GlobalSecondaryIndexes[0].KeySchema
			keys[0].AttributeName, keys[1].AttributeName = keys[1].AttributeName, keys[0].AttributeName
			in.GlobalSecondaryIndexes[0].Projection.ProjectionType = types.ProjectionTypeKeysOnly
		}, "ttl", "; index GSI1 with keys GSI1SK (S), GSI1PK (S) and KEYS_ONLY attributes; "},
		"expires by another attribute": {func(*dynamodb.CreateTableInput) {}, "expires_at",
			"; time to live by expires_at; poold needs keys PK"},
		"does not expire": {func(*dynamodb.CreateTableInput) {}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, targets.History{Table: "test-" + rand.Text(), Endpoint: server.URL})
			in := &dynamodb.CreateTableInput{TableName: &s.table}
			err := json.Unmarshal([]byte(tableShape), in)
			if c.change(in); err == nil {
				_, err = s.client.CreateTable(t.Context(), in)
			}
			if c.expires != "" && err == nil {
				_, err = s.client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &s.table,
					TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &c.expires, Enabled: aws.Bool(true)}})
			}
			testkit.NoError(t, err)
			for call, err := range map[string]error{"check": s.Check(t.Context()), "init": s.Init(t.Context())} {
				want := cmp.Or(c.has, "; time to live by nothing; ")
				if c.has == "" && call == "init" && err == nil {
					continue
				}
				if err == nil || errors.Is(err, history.ErrDown) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, want %s", call, err, want)
				}
			}
			_, expiry, err := s.describe(t.Context())
			if want := c.expires; err != nil || c.has != "" && expiry != want || c.has == "" && expiry != "ttl" {
				t.Errorf("now it expires by %q, %v", expiry, err)
			}
		})
	}
}

// Init stops at the first call that DynamoDB does not permit. Its error names this step. After the permission
// is granted, a repeated Init completes the table.
func TestRefusedCallsEndCheckAndInit(t *testing.T) {
	dynamotest.Credentials(t.Setenv)
	server := dynamotest.Start(t)
	steps := [][2]string{
		{"CreateTable", "making the table"}, {"DescribeTable", "waiting for the table"},
		{"DescribeTimeToLive", "looking at the table"},
		{"UpdateTimeToLive", "setting the table's time to live"},
	}
	for n, step := range steps {
		proxy := dynamotest.Through(t, server, func(operation string, _ []byte) dynamotest.Fate {
			return dynamotest.Fate{Answer: map[bool]string{true: "AccessDeniedException"}[operation == step[0]]}
		})
		direct := openStore(t, targets.History{Table: "test-" + rand.Text(), Endpoint: server.URL})
		err := openStore(t, targets.History{Table: direct.table, Endpoint: proxy.URL}).Init(t.Context())
		want := step[1] + ": " + history.ErrDown.Error() + ": DynamoDB answers AccessDeniedException"
		if !errors.Is(err, history.ErrDown) || err.Error() != want {
			t.Errorf("%s is refused: %v, want %s", step[0], err, want)
		}
		for _, later := range steps[n+1:] {
			testkit.Equal(t, "calls of "+later[0]+" after "+step[0], proxy.Requests(later[0]), 0)
		}
		testkit.NoError(t, errors.Join(direct.Init(t.Context()), direct.Check(t.Context()))) // it is allowed again
	}
}
