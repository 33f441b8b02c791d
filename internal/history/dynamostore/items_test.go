//go:build !race

package dynamostore

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"poold/internal/history"
)

// A program that knows only the table needs one query for each of four lists: the newest solves of a
// site, the figures of a day, the active tasks, and the tasks with a status.
func TestOtherProgramsReadTheTable(t *testing.T) {
	s, _ := openThrough(t, nil)
	all := records(yesterday(), 60)
	all[59].Ended = all[58].Ended // two records in the same millisecond
	mustWrite(t, s, all...)
	active := record(time.Time{}, 7)
	active.Placed, active.Submitted = time.Now().Add(-time.Second), time.Now()
	if err := s.PutActive(t.Context(), []history.Record{active}); err != nil {
		t.Fatal(err)
	}

	newest := query(t, s, nil, "PK = :pk AND begins_with(SK, :prefix)",
		map[string]string{":pk": "SITE#" + all[0].Sitekey, ":prefix": "SOLVE#"}, true, 50)
	var order []string
	for _, i := range newest {
		order = append(order, strings.TrimPrefix(i.text("SK"), "SOLVE#"))
	}
	if !slices.IsSortedFunc(order, func(a, b string) int { return -strings.Compare(a, b) }) || len(order) != 50 {
		t.Errorf("the newest of a site: %q", order)
	}
	same := all[59].Ended.Format("2006-01-02T15:04:05.000Z")
	if !strings.HasPrefix(order[0], same+"#") || !strings.HasPrefix(order[1], same+"#") || order[0] == order[1] {
		t.Errorf("two of one millisecond: %q", order[:2])
	}

	figures := query(t, s, nil, "PK = :pk AND SK = :sk",
		map[string]string{":pk": "STATS#" + yesterday().Format(time.DateOnly), ":sk": "TYPE#hcaptcha"}, false, 2)
	if len(figures) != 1 {
		t.Fatalf("a day's figures of a type are %d items, want 1", len(figures))
	}
	day, want := figures[0], dayOf(all).Types["hcaptcha"]
	for name, n := range map[string]int64{
		"total_solves": want.Orders(), "successful": want.Solved, "failed": want.Orders() - want.Solved - want.Refused,
		"refused": want.Refused, "discarded": want.Discarded, "lost": want.Lost, "total_elapsed": want.ElapsedMS, "spent": want.Spent,
	} {
		if day.number(name) != n {
			t.Errorf("%s of a day is %d, want %d", name, day.number(name), n)
		}
	}
	if want.Solved == 0 || want.Failed == 0 || want.Refused == 0 {
		t.Errorf("a day without each of its figures: %+v", want)
	}

	polling := query(t, s, aws.String("GSI1"), "GSI1PK = :pk", map[string]string{":pk": "STATUS#polling"}, false, 10)
	if len(polling) != 1 || polling[0].text("PK") != "ACTIVE#"+active.ID || polling[0].text("SK") != "TASK" || polling[0].text("status") != "polling" {
		t.Errorf("active tasks: %v", polling)
	}
	solved := query(t, s, aws.String("GSI1"), "GSI1PK = :pk", map[string]string{":pk": "STATUS#solved"}, true, 100)
	others := query(t, s, aws.String("GSI1"), "GSI1PK = :pk AND GSI1SK > :from",
		map[string]string{":pk": "STATUS#error", ":from": yesterday().Format(time.DateOnly)}, true, 100)
	if len(solved) != 20 || len(others) != 40 || others[0].text("status") != "error" || solved[0].text("SK") != "META" {
		t.Errorf("%d solved, %d with another end", len(solved), len(others))
	}
}

// The item of a solve has the attributes that other programs expect, and no empty attributes.
func TestAttributes(t *testing.T) {
	s, _ := openThrough(t, nil)
	r := record(yesterday(), 0)
	refused := record(yesterday(), 4, func(r *history.Record) {
		r.How, r.Code, r.Task, r.Sitekey, r.Submitted, r.Solved = history.Refused, "ERROR_ZERO_BALANCE", "", "", time.Time{}, time.Time{}
	})
	mustWrite(t, s, r, refused)
	got := solve(t, s, r.ID)
	for name, want := range map[string]string{
		"PK": "SOLVE#" + r.ID, "SK": "META", "GSI1PK": "STATUS#solved", "GSI1SK": r.Ended.Format(timestamp) + "#" + r.ID,
		"captcha_type": "recaptcha_v2", "sitekey": r.Sitekey, "pageurl": r.Pageurl, "status": "solved", "how": "solved",
		"submitted_at": r.Submitted.Format(timestamp), "solved_at": r.Solved.Format(timestamp), "ended_at": r.Ended.Format(timestamp),
		"project": r.Owner, "target": r.Target, "provider": r.Provider, "task": r.Task, "choice": "cheapest",
	} {
		if got.text(name) != want {
			t.Errorf("%s is %q, want %q", name, got.text(name), want)
		}
	}
	for name, want := range map[string]int64{
		"elapsed_ms": 20123, "polls": 3, "price": 2_990_000, "ttl": r.Ended.Add(90 * 24 * time.Hour).Unix(),
	} {
		if got.number(name) != want {
			t.Errorf("%s is %d, want %d", name, got.number(name), want)
		}
	}
	byTask := item{}
	byTask.setKey("SOLVE#"+r.Task, "META")
	if byTask = get(t, s, byTask); byTask.text("order") != r.ID || byTask.text("how") != "solved" || byTask["GSI1PK"] != nil || len(byTask) != len(got)-1 {
		t.Errorf("the item of the task: %v", byTask)
	}
	copied := siteItem(got)
	delete(copied, "PK")
	delete(copied, "SK")
	of := query(t, s, nil, "PK = :pk", map[string]string{":pk": "SITE#" + r.Sitekey}, false, 10)
	if len(of) != 1 {
		t.Fatalf("the site has %d items", len(of))
	}
	delete(of[0], "PK")
	delete(of[0], "SK")
	if !slices.Equal(slices.Sorted(maps.Keys(of[0])), slices.Sorted(maps.Keys(copied))) || of[0]["GSI1PK"] != nil || len(of[0]) != 19 {
		t.Errorf("the item of the site: %v", of[0])
	}
	if got := solve(t, s, refused.ID); got["task"] != nil || got["sitekey"] != nil || got["submitted_at"] != nil || got.number("elapsed_ms") != 0 ||
		got.text("status") != "error" || got.text("code") != "ERROR_ZERO_BALANCE" {
		t.Errorf("a refused order: %v", got)
	}
}

// solve reads the item of an order directly through the SDK.
func solve(t testing.TB, s *Store, id string) item {
	t.Helper()
	key := item{}
	key.setKey("SOLVE#"+id, "META")
	return get(t, s, key)
}

// No read returns a record after its ttl, even if its item still exists. The figures of the day still
// include the record.
func TestExpiredItemsNeverShow(t *testing.T) {
	s, _ := openThrough(t, nil)
	s.keep = time.Hour
	now := time.Now().UTC().Truncate(time.Millisecond)
	var expired, kept []history.Record
	for n := range 30 {
		expired = append(expired, record(now.Add(-time.Hour-time.Duration(n)*time.Second), 0))
	}
	for n := range 3 {
		kept = append(kept, record(now.Add(-time.Hour+time.Minute+time.Duration(n)*time.Second), 0))
	}
	mustWrite(t, s, append(expired, kept...)...)
	if raw := query(t, s, nil, "PK = :pk", map[string]string{":pk": "SITE#" + kept[0].Sitekey}, false, 100); len(raw) != 33 {
		t.Fatalf("%d items, want 33", len(raw))
	}
	for _, q := range []history.Query{{Limit: 1}, {Limit: 3}, {Limit: 100}, {Limit: 100, From: now.Add(-2 * time.Hour)}, {Limit: 3, Targets: []string{"target-0"}}} {
		bySite, err := s.Site(t.Context(), kept[0].Sitekey, q)
		if err != nil || len(bySite.Records) != min(q.Limit, 3) || bySite.More != (q.Limit < 3) {
			t.Errorf("%+v: %d of the site, more: %v, %v", q, len(bySite.Records), bySite.More, err)
		}
		byStatus, err := s.Tasks(t.Context(), history.StatusSolved, q)
		if err != nil || len(byStatus.Records) != min(q.Limit, 3) || byStatus.More != (q.Limit < 3) {
			t.Errorf("%+v: %d of the status, more: %v, %v", q, len(byStatus.Records), byStatus.More, err)
		}
	}
	for _, r := range append(expired, kept...) {
		if _, found, err := s.Solve(t.Context(), r.ID); err != nil || found != r.Ended.After(now.Add(-time.Hour)) {
			t.Errorf("a solve of %v: %v, %v", r.Ended, found, err)
		}
	}
	orders := int64(0)
	for _, day := range []time.Time{now, now.Add(-24 * time.Hour)} { // the records may be from either day
		d, err := s.Day(t.Context(), day)
		if err != nil {
			t.Fatal(err)
		}
		orders += d.Types["recaptcha_v2"].Orders()
	}
	if orders != 33 {
		t.Errorf("%d count, want 33", orders)
	}
}

// An active order expires ten minutes after its submission, unless a replica removes it earlier.
func TestActiveOrders(t *testing.T) {
	s, _ := openThrough(t, nil)
	var active []history.Record
	var ids []string
	submitted := time.Now().UTC().Truncate(time.Millisecond)
	for n := range 60 {
		active = append(active, record(time.Time{}, n, func(r *history.Record) { r.Submitted = submitted.Add(time.Duration(n)) }))
		ids = append(ids, active[n].ID)
	}
	polling := func() []item {
		return query(t, s, aws.String("GSI1"), "GSI1PK = :pk", map[string]string{":pk": "STATUS#polling"}, false, 100)
	}
	if err := s.PutActive(t.Context(), active); err != nil {
		t.Fatal(err)
	}
	found := polling()
	if len(found) != 60 {
		t.Fatalf("%d are active, want 60", len(found))
	}
	if i := found[0]; i.number("ttl") != submitted.Add(10*time.Minute).Unix() || i["elapsed_ms"] != nil || i["how"] != nil || i["choice"] != nil || i.text("target") == "" {
		t.Errorf("an active order: %v", i)
	}
	if err := s.RemoveActive(t.Context(), append(ids[:59:59], "never there")); err != nil {
		t.Fatal(err)
	}
	if found := polling(); len(found) != 1 || found[0].text("PK") != "ACTIVE#"+ids[59] {
		t.Errorf("%d are active, want the last one", len(found))
	}
}

// Two pairs of target and owner never share a key, neither in one transaction nor in several. An
// owner's name may be longer than the maximum length of a key.
func TestOwners(t *testing.T) {
	s, _ := openThrough(t, nil)
	owned := func(target, owner string) func(*history.Record) {
		return func(r *history.Record) { r.Target, r.Owner = target, owner }
	}
	mustWrite(t, s, record(yesterday().Add(-24*time.Hour), 0, owned("a", "b#c")), record(yesterday().Add(-24*time.Hour), 0, owned("a#b", "c")),
		record(yesterday().Add(-24*time.Hour), 0, owned("a%23b", "c")),
		record(yesterday().Add(-24*time.Hour), 0, func(r *history.Record) { r.Target, r.Owner, r.Type = "", "", "" }))
	if day, err := s.Day(t.Context(), yesterday().Add(-24*time.Hour)); err != nil || len(day.Targets) != 4 || len(day.Types) != 2 || day.Types[""].Orders() != 1 {
		t.Errorf("%v, %v", day, err)
	}
	long := strings.Repeat("o", 1100)
	a, b := record(yesterday(), 0, func(r *history.Record) { r.Owner = long + "a" }), record(yesterday(), 0, func(r *history.Record) { r.Owner = long + "b" })
	mustWrite(t, s, a, b)
	day, err := s.Day(t.Context(), yesterday())
	if err != nil || len(day.Targets) != 2 || day.Targets[history.Owned{Target: a.Target, Owner: a.Owner}] != a.Figures() {
		t.Errorf("%v, %v", day.Targets, err)
	}
}
