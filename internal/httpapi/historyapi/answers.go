package historyapi

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/status"
)

// billionths of the currency make one.
const billionths = 1e9

// Page is one page of records.
type Page[T any] struct {
	Records []T    `json:"records"`        // newest first; never null
	Next    string `json:"next,omitempty"` // cursor of the next page; absent on the last one
}

type (
	// List is the answer of GET /history/site, and of /history/tasks for orders that ended.
	List = Page[Record]
	// ActiveList is the answer of GET /history/active, ordered by the time of placing.
	ActiveList = Page[ActiveRecord]
)

// Order has the common fields of a Record and an ActiveRecord.
type Order struct {
	ID       string `json:"id"`
	Target   string `json:"target"` // "/solve": an identity that no target has
	Owner    string `json:"owner"`
	Type     string `json:"type"`
	Sitekey  string `json:"sitekey"` // "" if the type has none
	Pageurl  string `json:"pageurl"` // the same
	Provider string `json:"provider"`
	Task     string `json:"task"`   // the provider's id; "" = none is known
	Status   string `json:"status"` // solved | error | polling
}

// Record is how one order ended; the answer of GET /history/solve. Times are RFC 3339,
// UTC; "" = the order did not get that far.
type Record struct {
	Order
	How         string       `json:"how"`  // solved | discarded | failed | refused | lost
	Code        string       `json:"code"` // of the provider's error; "" = none
	PlacedAt    string       `json:"placed_at"`
	SubmittedAt string       `json:"submitted_at"`
	SolvedAt    string       `json:"solved_at"` // when the token can have been solved at the earliest
	EndedAt     string       `json:"ended_at"`
	ElapsedMS   int64        `json:"elapsed_ms"` // from the submit to the end; 0 without a submit
	Polls       int          `json:"polls"`      // by the replica that ended it
	By          string       `json:"by"`         // poll | callback: what ended it; "" = neither
	Price       status.Money `json:"price"`      // cost in the currency of the file's prices; null = unknown, 0 = nothing
}

// ActiveRecord is one order under way.
type ActiveRecord struct {
	Order
	State       string       `json:"state"` // submitting | bought | unknown
	PlacedAt    string       `json:"placed_at"`
	SubmittedAt string       `json:"submitted_at"`
	ElapsedMS   int64        `json:"elapsed_ms"` // since the submit
	Price       status.Money `json:"price"`      // of the token, in the currency of the file's prices; null = unknown
}

// Day is the answer of GET /history/day.
type Day struct {
	Date    string      `json:"date"`    // UTC, 2006-01-02
	Types   []DayType   `json:"types"`   // sorted; null for a key that is limited to some targets
	Targets []DayTarget `json:"targets"` // sorted; never null
}

// DayType are the figures of a type.
type DayType struct {
	Type string `json:"type"`
	DayFigures
}

// DayTarget are the figures of a target under one owner.
type DayTarget struct {
	Target string `json:"target"`
	Owner  string `json:"owner"`
	DayFigures
}

// dayRow is a DayType or a DayTarget in CSV, which has both in one table.
type dayRow struct {
	Date   string `json:"date"`
	Type   string `json:"type"`
	Target string `json:"target"`
	Owner  string `json:"owner"`
	DayFigures
}

func (d *Day) rows() (rows []dayRow) {
	for _, t := range d.Types {
		rows = append(rows, dayRow{d.Date, t.Type, "", "", t.DayFigures})
	}
	for _, t := range d.Targets {
		rows = append(rows, dayRow{d.Date, "", t.Target, t.Owner, t.DayFigures})
	}
	return rows
}

// DayFigures count the orders that ended on a day.
type DayFigures struct {
	Orders         int64        `json:"orders"` // all of the following
	Solved         int64        `json:"solved"`
	Discarded      int64        `json:"discarded"`
	Failed         int64        `json:"failed"`
	Refused        int64        `json:"refused"`
	Lost           int64        `json:"lost"`
	TotalElapsedMS int64        `json:"total_elapsed_ms"` // from submit to end, of those solved or discarded
	Spent          status.Money `json:"spent"`            // the sum of the known prices; null = all are unknown
	Unpriced       int64        `json:"unpriced"`         // orders that cost an unknown price
}

// UsageBy is the answer of GET /history/usage.
type UsageBy[Line any] struct {
	By    string `json:"by"`    // owner | target | key
	First string `json:"first"` // day that it covers; UTC, 2006-01-02
	Last  string `json:"last"`
	Lines []Line `json:"lines"` // sorted; never null
}

type (
	// Usage is by owner or target.
	Usage = UsageBy[UsageLine]
	// KeyUsage is by key.
	KeyUsage = UsageBy[KeyUsageLine]
)

// UsageLine has the figures of an owner, or of a target and its owner.
type UsageLine struct {
	Date   string `json:"date"`   // "" = of all days together
	Target string `json:"target"` // "" = of all that the owner answered for
	Owner  string `json:"owner"`
	DayFigures
	// Null if they are unknown for any part of the line.
	HandedOut *int64 `json:"handed_out"` // tokens, also those that came back
	Expired   *int64 `json:"expired"`    // tokens that met their margin unused
}

func historyRecord(r *history.Record) Record {
	by := ""
	switch {
	case r.Callback:
		by = "callback"
	case r.Polls > 0:
		by = "poll"
	}
	return Record{
		Order: Order{
			ID: r.ID, Target: r.Target, Owner: r.Owner, Type: string(r.Type), Sitekey: r.Sitekey, Pageurl: r.Pageurl,
			Provider: r.Provider, Task: r.Task, Status: string(r.Status()),
		},
		How: string(r.How), Code: r.Code, PlacedAt: kernel.Stamp(r.Placed), SubmittedAt: kernel.Stamp(r.Submitted),
		SolvedAt: kernel.Stamp(r.Solved), EndedAt: kernel.Stamp(r.Ended), ElapsedMS: r.Elapsed().Milliseconds(), Polls: r.Polls, By: by,
		Price: costOf(r),
	}
}

// stateWords are the states that an order under way can be listed in.
var stateWords = map[pool.State]string{pool.Submitting: "submitting", pool.Bought: "bought", pool.Unknown: "unknown"}

func activeRecord(u *purchase.OrderInFlight) ActiveRecord {
	return ActiveRecord{
		Order: Order{
			ID: u.Order.String(), Target: u.Target, Owner: u.Owner, Type: string(u.Identity.Type), Sitekey: u.Identity.Site(),
			Pageurl: u.Identity.Pageurl, Provider: u.Provider, Task: u.Task, Status: string(history.StatusPolling),
		},
		State: stateWords[u.State], PlacedAt: kernel.Stamp(u.Placed), SubmittedAt: kernel.Stamp(u.Submitted),
		ElapsedMS: u.Age.Milliseconds(), Price: priceOf(u.Price),
	}
}

// historyDay composes the figures of a day, with the targets that the caller sees.
func historyDay(date time.Time, figures history.Day, sees func(target string) bool) Day {
	day := Day{Date: date.Format(time.DateOnly), Types: []DayType{}, Targets: []DayTarget{}}
	for kind, f := range figures.Types {
		day.Types = append(day.Types, DayType{string(kind), dayFigures(f)})
	}
	for owned, f := range figures.Targets {
		if sees(owned.Target) {
			day.Targets = append(day.Targets, DayTarget{owned.Target, owned.Owner, dayFigures(f)})
		}
	}
	slices.SortFunc(day.Types, func(a, b DayType) int { return strings.Compare(a.Type, b.Type) })
	slices.SortFunc(day.Targets, func(a, b DayTarget) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Owner, b.Owner))
	})
	return day
}

func dayFigures(f history.Figures) DayFigures {
	return DayFigures{
		Orders: f.Orders(), Solved: f.Solved, Discarded: f.Discarded, Failed: f.Failed, Refused: f.Refused, Lost: f.Lost,
		TotalElapsedMS: f.ElapsedMS, Spent: spentOf(f.Spent, f.Unpriced), Unpriced: f.Unpriced,
	}
}

// costOf is the cost of an order: nothing if the service cannot have solved it. Older
// versions kept a price of such orders too.
func costOf(r *history.Record) status.Money {
	if !r.Costs() {
		return 0
	}
	return priceOf(r.Price)
}

// priceOf is a price in billionths of the currency; below 0 = unknown.
func priceOf(n int64) status.Money {
	if n < 0 {
		return status.UnknownMoney()
	}
	return status.Money(float64(n) / billionths)
}

// spentOf is a sum of known prices, in billionths of the currency. It is unknown if there
// are only unknown ones.
func spentOf(spent, unpriced int64) status.Money {
	if spent == 0 && unpriced > 0 {
		return status.UnknownMoney()
	}
	return priceOf(spent)
}

// respondTable answers with JSON, or with CSV if the caller prefers that. The CSV has a row
// for each record.
func respondTable[T any](w http.ResponseWriter, r *http.Request, document any, records []T) error {
	kernel.AnswerWithin(w, kernel.WriteLimit)
	w.Header()["Vary"] = kernel.VaryAccept
	if !kernel.Prefers(r.Header["Accept"], "text/csv") {
		return kernel.RespondJSON(w, document)
	}
	var text bytes.Buffer
	table := csv.NewWriter(&text)
	table.UseCRLF = true // RFC 4180
	rows := [][]string{columns(reflect.TypeFor[T]())}
	for _, record := range records {
		rows = append(rows, cells(reflect.ValueOf(record)))
	}
	if err := table.WriteAll(rows); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	kernel.Respond(w, "text/csv; charset=utf-8; header=present", text.Bytes())
	return nil
}

// columns returns the names of a record's fields in JSON, embedded records included.
func columns(record reflect.Type) (names []string) {
	for i := range record.NumField() {
		if field := record.Field(i); field.Anonymous {
			names = append(names, columns(field.Type)...)
		} else {
			names = append(names, field.Tag.Get("json"))
		}
	}
	return names
}

// cells are a record's values in the order of its columns. An unknown number is an empty
// cell.
func cells(record reflect.Value) (row []string) {
	for i := range record.NumField() {
		field := record.Field(i)
		if record.Type().Field(i).Anonymous {
			row = append(row, cells(field)...)
			continue
		}
		cell := ""
		switch value := field.Interface().(type) {
		case status.Money:
			if value.Known() {
				cell = value.String()
			}
		case *int64:
			if value != nil {
				cell = strconv.FormatInt(*value, 10)
			}
		default: // a string or a whole number
			cell = harmless(fmt.Sprint(value))
		}
		row = append(row, cell)
	}
	return row
}

// harmless prevents that a spreadsheet reads a text as a formula: it puts an apostrophe before the
// text, which the spreadsheet does not show.
func harmless(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
