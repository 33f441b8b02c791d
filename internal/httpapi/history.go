package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"poold/internal/history"
	"poold/internal/pool"
)

const (
	// readLimit limits a query to the store of the history, so that the response can still be
	// written within WriteLimit.
	readLimit = 8 * time.Second
	// longestSitekey is the maximum number of characters of a site key, and of the id of a task.
	longestSitekey = 256
)

// historySite is GET /history/site/{sitekey}: the ended orders of a site key.
func (s *Server) historySite(c *Context) error {
	q := history.Query{By: history.BySite, Value: history.Clean(c.Param("sitekey"))}
	if !isKeyOrTask(c.Param("sitekey")) {
		return NewProblem(CodeBadRequest, fmt.Sprintf(
			"a sitekey has 1 to %d printable characters, percent-encoded: /history/site/a%%2Fb for a/b", longestSitekey))
	}
	if err := readPageQuery(c, &q); err != nil {
		return err
	}
	return respondPage[history.Order](s, c, q)
}

// historyOrders is GET /history/orders: the orders with the given status, of all targets or of the given target or owner.
func (s *Server) historyOrders(c *Context) error {
	q := history.Query{By: history.ByStatus}
	target := func(text string) bool { q.Targets = []string{text}; return text != "" }
	owner := func(text string) bool { q.Owner = history.Clean(text); return q.Owner != "" }
	status := oneOf("status", "must be solved, error or polling: ?status=error", &q.Value,
		string(history.StatusSolved), string(history.StatusError), string(history.StatusPolling))
	err := readPageQuery(c, &q, status,
		Param{Name: "target", Want: "must be the name of a target, or /solve", Set: target},
		Param{Name: "owner", Want: "must be the owner of a target: ?status=error&owner=qa@example.com", Set: owner})
	switch {
	case err != nil:
		return err
	case q.Value == "":
		return status.Refuse()
	case q.Value == string(history.StatusPolling):
		return s.respondActive(c, q)
	}
	return respondPage[history.Order](s, c, q)
}

// historyActive is GET /history/active: the orders in flight that may have reached the provider.
func (s *Server) historyActive(c *Context) error {
	var q history.Query
	if err := readPageQuery(c, &q); err != nil {
		return err
	}
	return s.respondActive(c, q)
}

// historyKey is GET /history/key/{name}: the actions of a key on tokens. The configuration file may lack
// the key's name, because the key may come from an earlier file.
func (s *Server) historyKey(c *Context) error {
	q := history.Query{By: history.ByKey, Value: c.Param("name")}
	if !keyName.MatchString(q.Value) {
		return NewProblem(CodeBadRequest, "a key's name is 1 to 63 letters, digits, ., _, @ and -, beginning with a letter or digit; "+
			history.Keyless+" stands for calls without a key")
	}
	if err := readPageQuery(c, &q); err != nil {
		return err
	}
	if s.History != nil && !s.Audit {
		return errNoAudit()
	}
	return respondPage[history.Handout](s, c, q)
}

// respondPage runs a query and writes a page of its rows.
func respondPage[T any](s *Server, c *Context, q history.Query) error {
	found, more, err := findRows[T](s, c, q)
	if err != nil {
		return err
	}
	return writePage(c, found, more)
}

// writePage writes a page. A Link header has the address of the next page, because CSV has no field for the cursor.
func writePage[T any](c *Context, found []T, more bool) error {
	list := HistoryPage[T]{Records: append([]T{}, found...), Currency: c.Access.Set.Currency}
	if n := len(found); more && n > 0 {
		list.Next = encodeCursor(positionOf(found[n-1]))
		query := c.QueryParams()
		query.Set("cursor", list.Next)
		c.Response().Header().Set("Link", "<?"+query.Encode()+`>; rel="next"`)
	}
	return respondTable(c, list, list.Records)
}

// positionOf returns the position of a row in its list.
func positionOf(row any) history.Position {
	switch row := row.(type) {
	case Active:
		return history.Position{At: row.PlacedAt.Time, ID: row.ID}
	case history.Order:
		return history.Position{At: row.EndedAt.Time, ID: row.ID}
	case history.Handout:
		return history.Position{At: row.At.Time, ID: row.ID}
	}
	panic(fmt.Sprintf("httpapi: no list has rows of %T", row))
}

// stateWords maps the states of orders in flight to their names in JSON.
var stateWords = map[pool.State]string{pool.Submitting: "submitting", pool.Bought: "bought", pool.Unknown: "unknown"}

// respondActive writes the orders in flight, sorted by the time of placing, the newest first.
func (s *Server) respondActive(c *Context, q history.Query) error {
	all, err := s.Buyer.OrdersInFlight(c.Ctx())
	if err != nil {
		return err
	}
	var list []Active
	for i := range all {
		a := Active{history.OrderOf(&all[i].Purchase), stateWords[all[i].State]}
		a.ElapsedMS = all[i].Age.Milliseconds()
		at := a.PlacedAt.Time
		if c.Sees(a.Target) && (q.Targets == nil || slices.Contains(q.Targets, a.Target)) && (q.Owner == "" || q.Owner == a.Owner) &&
			!at.Before(q.From) && (q.To.IsZero() || at.Before(q.To)) &&
			(q.Before == history.Position{} || newestFirst(q.Before, positionOf(a)) < 0) {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b Active) int { return newestFirst(positionOf(a), positionOf(b)) })
	return writePage(c, list[:min(len(list), q.Limit)], len(list) > q.Limit)
}

// newestFirst compares two positions in the order in which a store returns rows.
func newestFirst(a, b history.Position) int {
	return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID))
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
	return respondTable(c, Order{found[0], c.Access.Set.Currency}, found)
}

// historyDay is GET /history/day/{date}: the figures of one UTC day. The figures by type cover all
// targets, so a key that is limited to some targets does not see them.
func (s *Server) historyDay(c *Context) error {
	date, ok := readDay(c.Param("date"))
	if !ok {
		return NewProblem(CodeBadRequest, "the date must be a UTC day from 1970 to 9999: /history/day/2026-01-02")
	}
	if err := c.ReadQuery(); err != nil {
		return err
	}
	day := Day{Date: date.Format(time.DateOnly), Types: []DayType{}, Targets: []DayTarget{}, Currency: c.Access.Set.Currency}
	err := s.readDays(c, date, date, func(sum *history.Sum) {
		switch {
		case sum.Scope == history.ScopeType:
			day.Types = append(day.Types, DayType{sum.Name, figuresOf(sum.Figures)})
		case sum.Scope == history.ScopeTarget && c.Sees(sum.Name):
			day.Targets = append(day.Targets, DayTarget{sum.Name, sum.Owner, figuresOf(sum.Figures)})
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(day.Types, func(a, b DayType) int { return strings.Compare(a.Type, b.Type) })
	slices.SortFunc(day.Targets, func(a, b DayTarget) int {
		return cmp.Or(strings.Compare(a.Target, b.Target), strings.Compare(a.Owner, b.Owner))
	})
	if c.Caller.Globs != nil {
		day.Types = nil
	}
	return respondTable(c, day, day.rows())
}

// isKeyOrTask reports whether a text can be a site key or the id of a task.
func isKeyOrTask(text string) bool {
	n := utf8.RuneCountInString(text)
	return n > 0 && n <= longestSitekey && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(char rune) bool { return !unicode.IsPrint(char) })
}

// findRows queries the store for those targets of the query that the caller may see. If the caller may
// see none of the targets, the result is empty.
func findRows[T any](s *Server, c *Context, q history.Query) (list []T, more bool, err error) {
	if s.History == nil {
		return nil, false, errNoHistory()
	}
	switch {
	case q.Targets == nil:
		q.Targets = c.Visible()
	case !c.Sees(q.Targets[0]):
		return nil, false, nil
	}
	if q.Targets != nil && len(q.Targets) == 0 {
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

// readDays reads the sums of each day of a range. All these queries together must end within readLimit.
func (s *Server) readDays(c *Context, first, last time.Time, add func(*history.Sum)) error {
	if s.History == nil {
		return errNoHistory()
	}
	return readHistory(c, func(ctx context.Context) error {
		for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
			sums, err := s.History.Days(ctx, day)
			if err != nil {
				return err
			}
			for i := range sums {
				add(&sums[i])
			}
		}
		return nil
	})
}

// errNoHistory returns the problem for a request to the history if no store is configured.
func errNoHistory() *Problem {
	return NewProblem(CodeNoHistory, "no history is kept: the configuration file has `history: {backend: none}`")
}

// errNoAudit returns the problem for a request to the audit if no audit is kept.
func errNoAudit() *Problem {
	return NewProblem(CodeNoAudit, "no audit is kept: the configuration file has `history: {audit: 0s}`")
}
