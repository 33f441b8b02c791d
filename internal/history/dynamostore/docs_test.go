//go:build !race

package dynamostore

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// page returns the section of docs/history.md about DynamoDB's table.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/history.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "## The table in DynamoDB\n")
	section, _, ends := strings.Cut(section, "\n## ")
	if !found || !ends {
		t.Fatal("docs/history.md has no section about the table")
	}
	return section
}

// rows returns the cells of the page's table with the given header.
func rows(t *testing.T, header string) (all [][]string) {
	t.Helper()
	_, table, found := strings.Cut(page(t), header+"\n")
	if !found {
		t.Fatalf("docs/history.md has no table %s", header)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[1:] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "| "), " | ") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		all = append(all, cells)
	}
	return all
}

// forms maps the placeholders on the page to patterns for the values in the test records.
var forms = map[string]string{
	"order": `[A-Z0-9]+\.[0-9a-f]{32}`, "task": `[0-9]+`, "sitekey": `6L[\w-]+`, "date": `\d{4}-\d\d-\d\d`, "type": `[a-z_0-9]+`,
	"timestamp": `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, "target": `target-\d+`, "owner": `qa@example\.com`, "key": "ci-login", "entry": `[A-Z0-9]+`,
}

// matches reports whether a key has the form of a cell.
func matches(cell, key string) bool {
	pattern := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(strings.Trim(cell, "`"), func(name string) string {
		return forms[strings.Trim(name, "{}")]
	})
	return regexp.MustCompile("^" + pattern + "$").MatchString(key)
}

func makeAllCalls(t *testing.T, s *Store) {
	t.Helper()
	r := record(yesterday(), 0, func(r *history.Record) { r.Code = "A_CODE" })
	mustWrite(t, s, r)
	e := entries(yesterday(), 1)[0]
	e.Image = "sha256:00, 5 bytes"
	mustNote(t, s, e)
	other := record(yesterday(), 1)
	if err := s.PutActive(t.Context(), []history.Record{other, record(yesterday(), 2)}); err != nil {
		t.Fatal(err)
	}
	q := history.Query{Limit: 1}
	_, siteErr := s.Site(t.Context(), r.Sitekey, q)
	_, tasksErr := s.Tasks(t.Context(), history.StatusSolved, q)
	_, dayErr := s.Day(t.Context(), yesterday())
	_, _, solveErr := s.Solve(t.Context(), r.ID)
	_, _, taskErr := s.Task(t.Context(), r.Task)
	_, entriesErr := s.Entries(t.Context(), e.Key, q)
	_, keyErr := s.KeyDay(t.Context(), yesterday())
	for _, err := range []error{siteErr, tasksErr, dayErr, solveErr, taskErr, entriesErr, keyErr, s.RemoveActive(t.Context(), []string{other.ID}), s.Check(t.Context())} {
		if err != nil {
			t.Error(err)
		}
	}
}

// The table in DynamoDB contains exactly the items that the page lists, with exactly these
// attributes.
func TestThePageListsTheItems(t *testing.T) {
	s, _ := openThrough(t, nil)
	makeAllCalls(t, s)
	out, err := s.client.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(s.table)})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	layout := rows(t, "| `PK` | `SK` | Attributes |")
	for _, attributes := range out.Items {
		i, listed := item(attributes), false
		for _, row := range layout {
			if !matches(row[0], i.text("PK")) || !matches(row[1], i.text("SK")) {
				continue
			}
			listed, found[row[0]+row[1]] = true, true
			names := strings.Split(strings.ReplaceAll(row[2], "`", ""), " ")
			want := slices.Sorted(slices.Values(append(names, "PK", "SK")))
			if got := slices.Sorted(maps.Keys(i)); !slices.Equal(got, want) {
				t.Errorf("%s, %s has the attributes\n%v, the page lists\n%v", row[0], row[1], got, want)
			}
		}
		if !listed {
			t.Errorf("the page does not list %s, %s", i.text("PK"), i.text("SK"))
		}
	}
	if len(found) != len(layout) {
		t.Errorf("the table has %d kinds of items, the page lists %d", len(found), len(layout))
	}
}

// The policy on the page allows exactly the calls of the daemon and of `poold history init`.
func TestThePageListsThePermissions(t *testing.T) {
	_, text, _ := strings.Cut(page(t), "```text\n")
	text, _, _ = strings.Cut(text, "```")
	var policy struct {
		Statement []struct {
			Sid    string
			Action []string
		}
	}
	if err := json.Unmarshal([]byte(text), &policy); err != nil || len(policy.Statement) != 2 {
		t.Fatalf("the policy: %v, %d statements", err, len(policy.Statement))
	}
	asked := map[string]bool{}
	s, proxy := openThrough(t, func(operation string, _ []byte) dynamotest.Fate {
		// A transaction needs the permissions of all its operations.
		if operation == "TransactWriteItems" {
			asked["dynamodb:PutItem"], asked["dynamodb:UpdateItem"] = true, true
		} else {
			asked["dynamodb:"+operation] = true
		}
		return dynamotest.Fate{}
	})
	for n, do := range []func(){
		func() { makeAllCalls(t, s) },
		func() {
			fresh := openStore(t, Options{Table: "fresh", Endpoint: proxy.URL})
			for _, stream := range []bool{false, true} {
				if err := fresh.Init(t.Context(), stream); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		clear(asked)
		do()
		want := slices.Sorted(maps.Keys(asked))
		if got := slices.Sorted(slices.Values(policy.Statement[n].Action)); !slices.Equal(got, want) {
			t.Errorf("%s allows\n%v, needed is\n%v", policy.Statement[n].Sid, got, want)
		}
	}
}

// The costs on the page equal the costs that the emulator counts.
func TestThePageListsTheCosts(t *testing.T) {
	s, proxy := openThrough(t, nil)
	together := func(targets int) {
		all := records(yesterday(), history.MostBatch)
		for i := range all {
			all[i].Target, all[i].Type = fmt.Sprint("target-", i%targets), "turnstile"
		}
		mustWrite(t, s, all...)
	}
	audited := func(keys int) {
		all := entries(yesterday(), history.MostBatch)
		for i := range all {
			all[i].Key = fmt.Sprint("key-", i%keys)
		}
		mustNote(t, s, all...)
	}
	type deed struct {
		records int
		do      func()
	}
	deeds := [][]deed{
		{{1, func() { mustWrite(t, s, record(yesterday(), 0)) }}},
		{
			{1, func() { mustWrite(t, s, record(yesterday(), 0, func(r *history.Record) { r.Sitekey = "" })) }},
			{1, func() { mustWrite(t, s, record(yesterday(), 0, func(r *history.Record) { r.Task = "" })) }},
		},
		{{history.MostBatch, func() { together(5) }}, {history.MostBatch, func() { together(40) }}},
		{{1, func() {
			r := record(yesterday(), 0)
			if err := s.PutActive(t.Context(), []history.Record{r}); err != nil {
				t.Fatal(err)
			}
			if err := s.RemoveActive(t.Context(), []string{r.ID}); err != nil {
				t.Fatal(err)
			}
		}}},
		{{1, func() { mustNote(t, s, entries(yesterday(), 1)...) }}},
		{{history.MostBatch, func() { audited(1) }}, {history.MostBatch, func() { audited(5) }}},
	}
	listed := rows(t, "| What | Units |")
	if len(listed) != len(deeds) {
		t.Fatalf("the page lists %d costs, the test knows %d", len(listed), len(deeds))
	}
	units := func() float64 { return proxy.Units("TransactWriteItems") + proxy.Units("BatchWriteItem") }
	for n, row := range listed {
		var low, high float64
		if found, _ := fmt.Sscanf(row[1], "%g to %g", &low, &high); found == 1 {
			high = low
		}
		for _, d := range deeds[n] {
			before := units()
			d.do()
			if each := (units() - before) / float64(d.records); each < low-0.05 || each > high+0.05 {
				t.Errorf("%s: %.2f units, the page says %s", row[0], each, row[1])
			}
		}
	}
}
