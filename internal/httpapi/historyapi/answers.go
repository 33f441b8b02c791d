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
	"poold/internal/targets"
)

// billionths is the number of billionths in one unit of the currency.
const billionths = 1e9

// Page is one page of a list of records.
type Page[T any] struct {
	Records  []T              `json:"records"`            // newest first; never null
	Next     string           `json:"next,omitempty"`     // cursor of the next page; absent on the last page
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

type (
	// List is the response of GET /history/site, and of GET /history/tasks for ended orders.
	List = Page[Record]
	// ActiveList is the response of GET /history/active and of GET /history/tasks?status=polling.
	// The orders are sorted by the time of placing.
	ActiveList = Page[ActiveRecord]
)

// Order contains the fields that Record and ActiveRecord share.
type Order struct {
	ID       string `json:"id"`
	Target   string `json:"target"` // name of the target; "/solve" = no target has the identity
	Owner    string `json:"owner"`
	Type     string `json:"type"`
	Sitekey  string `json:"sitekey"` // "" if the type of captcha has no site key
	Pageurl  string `json:"pageurl"` // "" if the type of captcha has no page
	Provider string `json:"provider"`
	Task     string `json:"task"`   // the provider's id of the task; "" = unknown
	Status   string `json:"status"` // solved | error | polling
}

// Record describes how an order ended. Record is also the response of GET /history/solve. Times are
// RFC 3339, UTC; a time is "" if the order did not reach that step.
type Record struct {
	Order
	How         string       `json:"how"`  // solved | discarded | failed | refused | lost
	Code        string       `json:"code"` // code of the provider's error; "" = none
	PlacedAt    string       `json:"placed_at"`
	SubmittedAt string       `json:"submitted_at"`
	SolvedAt    string       `json:"solved_at"` // earliest possible time of the solution
	EndedAt     string       `json:"ended_at"`
	ElapsedMS   int64        `json:"elapsed_ms"` // from the submission to the end; 0 if the order was not submitted
	Polls       int          `json:"polls"`      // polls by the replica that ended the order
	By          string       `json:"by"`         // poll | callback: the event that ended the order; "" = neither
	Price       status.Money `json:"price"`      // cost in the currency of the file's prices; null = unknown, 0 = nothing
	Choice      string       `json:"choice"`     // how the provider was chosen, see purchase.Purchase; "" = unknown
}

// Solve is the response of GET /history/solve.
type Solve struct {
	Record
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

// ActiveRecord is an order in flight.
type ActiveRecord struct {
	Order
	State       string       `json:"state"` // submitting | bought | unknown
	PlacedAt    string       `json:"placed_at"`
	SubmittedAt string       `json:"submitted_at"`
	ElapsedMS   int64        `json:"elapsed_ms"` // since the submission
	Price       status.Money `json:"price"`      // price of the token in the currency of the file's prices; null = unknown
}

// Day is the response of GET /history/day.
type Day struct {
	Date     string           `json:"date"`               // UTC, 2006-01-02
	Types    []DayType        `json:"types"`              // sorted; null for a key that is limited to some targets
	Targets  []DayTarget      `json:"targets"`            // sorted; never null
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

// DayType contains the figures of a type of captcha.
type DayType struct {
	Type string `json:"type"`
	DayFigures
}

// DayTarget contains the figures of a target for the time in which the target had the given owner.
type DayTarget struct {
	Target string `json:"target"`
	Owner  string `json:"owner"`
	DayFigures
}

// dayRow is a row of the CSV table. Each DayType and each DayTarget becomes one row.
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

// DayFigures contains the counts of orders that ended on a day.
type DayFigures struct {
	Orders         int64        `json:"orders"` // sum of the five outcomes below
	Solved         int64        `json:"solved"`
	Discarded      int64        `json:"discarded"`
	Failed         int64        `json:"failed"`
	Refused        int64        `json:"refused"`
	Lost           int64        `json:"lost"`
	TotalElapsedMS int64        `json:"total_elapsed_ms"` // from submission to end, summed over solved and discarded orders
	Spent          status.Money `json:"spent"`            // sum of the known prices; null = all are unknown
	Unpriced       int64        `json:"unpriced"`         // orders with an unknown price
}

// UsageBy is the response of GET /history/usage.
type UsageBy[Line any] struct {
	By       string           `json:"by"`    // owner | target | key
	First    string           `json:"first"` // first day; UTC, 2006-01-02
	Last     string           `json:"last"`
	Lines    []Line           `json:"lines"`              // sorted; never null
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

type (
	// Usage is the response for figures by owner or by target.
	Usage = UsageBy[UsageLine]
	// KeyUsage is the response for figures by key.
	KeyUsage = UsageBy[KeyUsageLine]
)

// UsageLine contains the figures of an owner, or the figures of a target for the time in which the
// target had this owner.
type UsageLine struct {
	Date   string `json:"date"`   // "" = all days together
	Target string `json:"target"` // "" = all targets of the owner
	Owner  string `json:"owner"`
	DayFigures
	// HandedOut and Expired are null if the numbers are unknown for any day or target of the line.
	HandedOut *int64 `json:"handed_out"` // tokens handed out, including those that were returned
	Expired   *int64 `json:"expired"`    // tokens that entered their margin unused
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
		Price: costOf(r), Choice: r.Choice,
	}
}

// stateWords maps the states of orders in flight to their names in JSON.
var stateWords = map[pool.State]string{pool.Submitting: "submitting", pool.Bought: "bought", pool.Unknown: "unknown"}

func activeRecord(u *purchase.OrderInFlight) ActiveRecord {
	return ActiveRecord{
		Order: Order{
			ID: history.OrderID(&u.Purchase), Target: u.Target, Owner: u.Owner, Type: string(u.Identity.Type), Sitekey: u.Identity.Site(),
			Pageurl: u.Identity.Pageurl, Provider: u.Provider, Task: u.Task, Status: string(history.StatusPolling),
		},
		State: stateWords[u.State], PlacedAt: kernel.Stamp(u.Placed), SubmittedAt: kernel.Stamp(u.Submitted),
		ElapsedMS: u.Age.Milliseconds(), Price: priceOf(u.Price),
	}
}

// historyDay converts the figures of a day. Targets that the caller may not see are omitted.
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

// costOf returns the cost of an order: 0 if the service cannot have solved the order. Older
// versions of poold also stored a price for unsolved orders.
func costOf(r *history.Record) status.Money {
	if !r.Costs() {
		return 0
	}
	return priceOf(r.Price)
}

// priceOf converts a price from billionths of the currency. A price below 0 is unknown.
func priceOf(n int64) status.Money {
	if n < 0 {
		return status.UnknownMoney()
	}
	return status.Money(float64(n) / billionths)
}

// spentOf converts a sum of known prices from billionths of the currency. The result is unknown if
// all prices are unknown.
func spentOf(spent, unpriced int64) status.Money {
	if spent == 0 && unpriced > 0 {
		return status.UnknownMoney()
	}
	return priceOf(spent)
}

// respondTable writes the document as JSON. If the caller prefers CSV, respondTable writes one row
// for each record instead.
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
	_ = table.WriteAll(rows) // a buffer accepts every write
	kernel.Respond(w, "text/csv; charset=utf-8; header=present", text.Bytes())
	return nil
}

// columns returns the names of a record's JSON fields, including the fields of embedded structs.
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

// cells returns the values of a record in the order that the function columns returns. An unknown
// number becomes an empty cell.
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
			cell = escapeFormula(fmt.Sprint(value))
		}
		row = append(row, cell)
	}
	return row
}

// escapeFormula puts an apostrophe before a text if a spreadsheet would read the text as a formula.
// The spreadsheet does not show the apostrophe.
func escapeFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
