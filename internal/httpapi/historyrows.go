package httpapi

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"poold/internal/history"
	"poold/internal/targets"
)

// HistoryPage is one page of a list. T is history.Order, Active or history.Handout; its JSON fields are also the columns
// of CSV.
type HistoryPage[T any] struct {
	Records  []T              `json:"records"`            // newest first; never null
	Next     string           `json:"next,omitempty"`     // cursor of the next page; absent on the last page
	Currency targets.Currency `json:"currency,omitempty"` // currency of the configuration file; absent = the file names none
}

// Active is an order in flight. Its elapsed_ms is its age.
type Active struct {
	history.Order
	State string `json:"state"` // submitting | bought | unknown
}

// Order is the response of GET /history/order.
type Order struct {
	history.Order
	Currency targets.Currency `json:"currency,omitempty"`
}

// Day is the response of GET /history/day.
type Day struct {
	Date     string           `json:"date"`    // UTC, 2006-01-02
	Types    []DayType        `json:"types"`   // sorted; null for a key that is limited to some targets
	Targets  []DayTarget      `json:"targets"` // sorted; never null
	Currency targets.Currency `json:"currency,omitempty"`
}

// DayType contains the figures of a type of captcha.
type DayType struct {
	Type string `json:"type"`
	Figures
}

// DayTarget contains the figures of a target for the time in which the target had the given owner.
type DayTarget struct {
	Target string `json:"target"`
	Owner  string `json:"owner"`
	Figures
}

// dayRow is a row of the CSV table. Each DayType and each DayTarget becomes one row.
type dayRow struct {
	Date   string `json:"date"`
	Type   string `json:"type"`
	Target string `json:"target"`
	Owner  string `json:"owner"`
	Figures
}

func (d *Day) rows() (rows []dayRow) {
	for _, t := range d.Types {
		rows = append(rows, dayRow{d.Date, t.Type, "", "", t.Figures})
	}
	for _, t := range d.Targets {
		rows = append(rows, dayRow{d.Date, "", t.Target, t.Owner, t.Figures})
	}
	return rows
}

// Figures contains the counts of orders that ended on a day.
type Figures struct {
	Orders         int64         `json:"orders"` // sum of the five outcomes below
	Solved         int64         `json:"solved"`
	Discarded      int64         `json:"discarded"`
	Failed         int64         `json:"failed"`
	Refused        int64         `json:"refused"`
	Lost           int64         `json:"lost"`
	TotalElapsedMS int64         `json:"total_elapsed_ms"` // from submit to end, summed over solved and discarded orders
	Spent          history.Money `json:"spent"`            // sum of the known prices; null = all are unknown
	Unpriced       int64         `json:"unpriced"`         // orders with an unknown price
}

func figuresOf(f history.Figures) Figures {
	return Figures{
		Orders: f.Orders(), Solved: f["solved"], Discarded: f["discarded"], Failed: f["failed"], Refused: f["refused"], Lost: f["lost"],
		TotalElapsedMS: f["elapsed_ms"], Spent: f.Spent(), Unpriced: f["unpriced"],
	}
}

// UsageBy is the response of GET /history/usage.
type UsageBy[Line any] struct {
	By       string           `json:"by"`    // owner | target | key
	First    string           `json:"first"` // first day; UTC, 2006-01-02
	Last     string           `json:"last"`
	Lines    []Line           `json:"lines"` // sorted; never null
	Currency targets.Currency `json:"currency,omitempty"`
}

// UsageLine contains the figures of an owner, or the figures of a target for the time in which the
// target had this owner.
type UsageLine struct {
	Date   string `json:"date"`   // "" = all days together
	Target string `json:"target"` // "" = all targets of the owner
	Owner  string `json:"owner"`
	Figures
	// HandedOut and Expired are null if the numbers are unknown for any day or target of the line.
	HandedOut *int64 `json:"handed_out"` // tokens handed out, including those that were returned
	Expired   *int64 `json:"expired"`    // tokens that entered their margin unused
}

// KeyUsageLine contains the figures of a key.
type KeyUsageLine struct {
	Date      string        `json:"date"` // "" = all days together
	Key       string        `json:"key"`  // name; "-" = no key
	HandedOut int64         `json:"handed_out"`
	Returned  int64         `json:"returned"` // of those handed out: the answer did not leave
	Missed    int64         `json:"missed"`   // requests that got no token
	Accepted  int64         `json:"accepted"` // reports of acceptance
	Rejected  int64         `json:"rejected"`
	Bought    int64         `json:"bought"`   // tokens bought for calls of the key; HandedOut includes them
	Spent     history.Money `json:"spent"`    // what the tokens handed out cost, as far as known; null = nothing is known
	Unpriced  int64         `json:"unpriced"` // tokens of an unknown price
}

// respondTable writes the document as JSON. If the caller prefers CSV, respondTable writes one row
// for each record instead: the JSON fields of a record are the columns.
func respondTable[T any](c *Context, document any, records []T) error {
	c.AnswerWithin(WriteLimit)
	if !c.Prefers("text/csv") {
		return c.JSON(http.StatusOK, document)
	}
	columns := columnsOf(reflect.TypeFor[T]())
	names := make([]string, len(columns))
	for i, column := range columns {
		names[i] = column.Tag.Get("json")
	}
	var text bytes.Buffer
	table := csv.NewWriter(&text)
	table.UseCRLF = true // RFC 4180
	_ = table.Write(names)
	for _, record := range records {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = cellOf(reflect.ValueOf(record).FieldByIndex(column.Index))
		}
		_ = table.Write(cells)
	}
	table.Flush() // a buffer accepts every write
	return c.Blob(http.StatusOK, "text/csv; charset=utf-8; header=present", text.Bytes())
}

// columnsOf returns the fields of a record, with those of embedded structs in their place.
func columnsOf(record reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(record), func(f reflect.StructField) bool { return f.Anonymous })
}

// cellOf returns the text of a value. An unknown number becomes an empty cell. A text that a
// spreadsheet would read as a formula gets an apostrophe, which the spreadsheet does not show.
func cellOf(value reflect.Value) string {
	if value.Kind() == reflect.Pointer {
		if value.IsNil() {
			return ""
		}
		value = value.Elem()
	}
	text := fmt.Sprint(value.Interface())
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
