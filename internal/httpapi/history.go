package httpapi

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"poold/internal/history"
	"poold/internal/strictjson"
)

// readLimit limits a query to the store of the history, so that the response can still be
// written within WriteLimit.
const readLimit = 8 * time.Second

// historySite is GET /history/site/{sitekey}: the ended orders of a site key.
func (s *Server) historySite(c *Context) error {
	q := history.Query{By: history.BySite, Value: history.Clean(c.Param("sitekey"))}
	if q.Value == "" {
		return NewProblem(CodeBadRequest, "the path lacks the sitekey, percent-encoded: /history/site/a%2Fb for a/b")
	}
	if err := readPageQuery(c, &q); err != nil {
		return err
	}
	return respondPage[history.Order](s, c, q)
}

// historyOrders is GET /history/orders: the ended orders with the given status, of all targets, of one target or of
// one owner.
func (s *Server) historyOrders(c *Context) error {
	q := history.Query{By: history.ByStatus}
	target := func(text string) bool { q.Targets = []string{text}; return text != "" }
	owner := func(text string) bool { q.Owner = history.Clean(text); return q.Owner != "" }
	status := oneOf("status", "must be solved or error: ?status=error", &q.Value,
		string(history.StatusSolved), string(history.StatusError))
	err := readPageQuery(c, &q, status,
		Param{Name: "target", Want: "must be the name of a target, or /solve", Set: target},
		Param{Name: "owner", Want: "must be the owner of a target: ?status=error&owner=qa@example.com", Set: owner})
	switch {
	case err != nil:
		return err
	case q.Value == "":
		return status.Refuse()
	}
	return respondPage[history.Order](s, c, q)
}

// historyActive is GET /history/active: the orders in flight that may have reached the provider, the newest first.
func (s *Server) historyActive(c *Context) error {
	if err := c.ReadQuery(); err != nil {
		return err
	}
	all, err := s.Buyer.OrdersInFlight(c.Ctx())
	if err != nil {
		return err
	}
	list := HistoryPage[Active]{Records: []Active{}}
	for i := range all {
		a := Active{history.OrderOf(&all[i].Purchase), string(all[i].State)}
		if a.ElapsedMS = all[i].Age.Milliseconds(); c.Sees(a.Target) {
			list.Records = append(list.Records, a)
		}
	}
	slices.SortFunc(list.Records, func(a, b Active) int { return b.PlacedAt.Compare(a.PlacedAt.Time) })
	return respondTable(c, list, list.Records)
}

// historyKey is GET /history/key/{name}: the actions of a key on tokens. The configuration file may lack
// the key's name, because the key may come from an earlier file.
func (s *Server) historyKey(c *Context) error {
	q := history.Query{By: history.ByKey, Value: history.Clean(c.Param("name"))}
	if err := readPageQuery(c, &q); err != nil {
		return err
	}
	if s.History != nil && !s.Audit {
		return errNoAudit
	}
	return respondPage[history.Handout](s, c, q)
}

// respondPage runs a query and writes a page of its rows. A Link header has the address of the next page, because CSV
// has no field for the cursor.
func respondPage[T interface{ Position() history.Position }](s *Server, c *Context, q history.Query) error {
	found, more, err := findRows[T](s, c, q)
	if err != nil {
		return err
	}
	list := HistoryPage[T]{Records: append([]T{}, found...)}
	if n := len(found); more && n > 0 {
		list.Next = encodeCursor(found[n-1].Position())
		query := c.QueryParams()
		query.Set("cursor", list.Next)
		c.Response().Header().Set("Link", "<?"+query.Encode()+`>; rel="next"`)
	}
	return respondTable(c, list, list.Records)
}

// historyOrder is GET /history/order/{id}: one ended order, found by its own id or by the provider's task
// id. The response is the same for an unknown order and for an order that the caller may not see.
func (s *Server) historyOrder(c *Context) error {
	if err := c.ReadQuery(); err != nil {
		return err
	}
	id := c.Param("id")
	q := history.Query{By: history.ByTask, Value: history.Clean(id), Limit: 1}
	if history.IsOrder(id) {
		q.By = history.ByID
	}
	found, _, err := findRows[history.Order](s, c, q)
	switch {
	case err != nil:
		return err
	case len(found) == 0:
		return NewProblem(CodeUnknownOrder,
			"no ended order or task has this id, or the history has dropped it; /history/active lists orders in flight")
	}
	return respondTable(c, found[0], found)
}

// historyDay is GET /history/day/{date}: the figures of one UTC day, by type and by target. The figures by type cover
// all targets, so a key that is limited to some targets does not see them.
func (s *Server) historyDay(c *Context) error {
	date, ok := readDay(c.Param("date"))
	if !ok {
		return NewProblem(CodeBadRequest, "the date must be a UTC day from 1970 to 9999: /history/day/2026-01-02")
	}
	if err := c.ReadQuery(); err != nil {
		return err
	}
	if s.History == nil {
		return errNoHistory
	}
	return respondUsage(s, c, "day", date, date, targetUsage, func(sum *history.Sum) (of usageOf, is bool) {
		if sum.Scope == history.ScopeType {
			return usageOf{date: sum.Day, kind: sum.Name}, c.Caller.Targets == nil
		}
		return usageOf{date: sum.Day, name: sum.Name, owner: sum.Owner}, sum.Scope == history.ScopeTarget && c.Sees(sum.Name)
	})
}

// findRows queries the store for those targets of the query that the caller may see. If the caller may
// see none of the targets, the result is empty.
func findRows[T any](s *Server, c *Context, q history.Query) (list []T, more bool, err error) {
	if s.History == nil {
		return nil, false, errNoHistory
	}
	if q.Targets == nil && c.Caller.Targets != nil {
		q.Targets = c.usable()
	}
	if q.Targets != nil && (len(q.Targets) == 0 || !c.Sees(q.Targets[0])) {
		return nil, false, nil
	}
	err = readHistory(c, func(ctx context.Context) error {
		found, err := s.History.Find(ctx, q)
		if err == nil {
			more = found.More
			list, err = history.Decode[T](found)
		}
		return err
	})
	return list, more, err
}

// readHistory executes a query to a store within readLimit.
func readHistory(c *Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(c.Ctx(), readLimit)
	defer cancel()
	err := ask(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w within %v", history.ErrDown, readLimit)
	}
	return err
}

// These are the errors of requests for the history or the audit if poold keeps none.
var (
	errNoHistory = errors.New("httpapi: no history is kept")
	errNoAudit   = errors.New("httpapi: no audit is kept")
)

// HistoryPage is one page of a list. T is history.Order, Active or history.Handout; its JSON fields are also the
// columns of CSV.
type HistoryPage[T any] struct {
	Records []T    `json:"records"`        // newest first; never null
	Next    string `json:"next,omitempty"` // cursor of the next page; absent on the last page
}

// Active is an order in flight. The field elapsed_ms is the age of the order.
type Active struct {
	history.Order
	State string `json:"state"` // submitting | bought | unknown
}

// UsageBy is the response of GET /history/usage and GET /history/day.
type UsageBy[Line any] struct {
	By    string `json:"by"`    // owner | target | provider | key | day
	First string `json:"first"` // first day; UTC, 2006-01-02
	Last  string `json:"last"`
	Lines []Line `json:"lines"` // sorted; never null
}

// UsageLine contains figures of the orders of an owner, of a target while it belonged to the same owner, of a provider,
// or of a type on one day.
type UsageLine struct {
	Date           string        `json:"date"`     // "" = all days together
	Type           string        `json:"type"`     // "" = all types
	Target         string        `json:"target"`   // "" = all targets
	Owner          string        `json:"owner"`    // "" = all owners
	Provider       string        `json:"provider"` // "" = all providers
	Orders         int64         `json:"orders"`   // sum of the five outcomes below
	Solved         int64         `json:"solved"`
	Discarded      int64         `json:"discarded"`
	Failed         int64         `json:"failed"`
	Refused        int64         `json:"refused"`
	Lost           int64         `json:"lost"`
	TotalElapsedMS int64         `json:"total_elapsed_ms"` // from submit to end, summed over solved and discarded orders
	Spent          history.Money `json:"spent"`            // sum of the known prices; null = all are unknown
	Unpriced       int64         `json:"unpriced"`         // orders with an unknown price
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
	if !c.Prefers("text/csv") {
		return c.JSON(http.StatusOK, document)
	}
	var text bytes.Buffer
	table := csv.NewWriter(&text)
	table.UseCRLF = true // RFC 4180
	names, _ := fieldsOf(*new(T))
	_ = table.Write(names)
	for _, record := range records {
		_, cells := fieldsOf(record)
		_ = table.Write(cells)
	}
	table.Flush() // a buffer accepts every write
	return c.Blob(http.StatusOK, "text/csv; charset=utf-8; header=present", text.Bytes())
}

// fieldsOf returns the names and the values in the JSON of a record. An unknown number becomes an empty text. A text
// that a spreadsheet would read as a formula gets an apostrophe, which the spreadsheet does not show.
func fieldsOf(record any) (names, cells []string) {
	d := json.NewDecoder(bytes.NewReader(strictjson.Encode(record)))
	d.UseNumber()
	_, _ = d.Token() // the brace
	for d.More() {
		name, _ := d.Token()
		value, _ := d.Token()
		cell := ""
		if value != nil {
			cell = fmt.Sprint(value)
		}
		if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
			cell = "'" + cell
		}
		names, cells = append(names, fmt.Sprint(name)), append(cells, cell)
	}
	return names, cells
}
