package historyapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"poold/internal/history"
	"poold/internal/httpapi/kernel"
	"poold/internal/purchase"
	"poold/internal/status"
)

const (
	// readLimit limits a query to the store of the history, so that the response can still be
	// written within kernel.WriteLimit.
	readLimit = 8 * time.Second
	// longestSitekey is the maximum number of characters of a site key, and of the id of a task.
	longestSitekey = 256
)

// Store reads the ended orders. A Store has the reading methods of history.Store.
type Store interface {
	Site(ctx context.Context, sitekey string, q history.Query) (history.Page, error)
	Tasks(ctx context.Context, status history.Status, q history.Query) (history.Page, error)
	Day(ctx context.Context, day time.Time) (history.Day, error)
	Solve(ctx context.Context, id string) (history.Record, bool, error)
	Task(ctx context.Context, task string) (history.Record, bool, error)
}

// Journal lists the orders in flight of all replicas; *purchase.Buyer implements it.
type Journal interface {
	OrdersInFlight(ctx context.Context) ([]purchase.OrderInFlight, error)
}

// Routes contains the handlers of this package.
type Routes struct {
	Store   Store // nil = no history is kept
	Audit   Audit // nil = no audit is kept
	Journal Journal
	Status  *status.Collector
}

// Site is GET /history/site/{sitekey}: the ended orders of a site key.
func (h *Routes) Site(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	sitekey := c.Param(r, 0)
	if !isKeyOrTask(sitekey) {
		return kernel.NewProblem(kernel.CodeBadRequest, fmt.Sprintf(
			"a sitekey has 1 to %d printable characters, percent-encoded: /history/site/a%%2Fb for a/b", longestSitekey))
	}
	asked, err := readPageQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	return h.page(w, r, c, asked, func(ctx context.Context, q history.Query) (history.Page, error) {
		return h.Store.Site(ctx, sitekey, q)
	})
}

// Tasks is GET /history/tasks: the orders whose tasks have the given status. The orders belong to
// all targets or to the given target.
func (h *Routes) Tasks(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	asked, err := readPageQuery(r.URL.RawQuery, "status", "target")
	if err != nil {
		return err
	}
	if asked.values.Has("target") {
		asked.Targets = []string{asked.values.Get("target")}
		if asked.Targets[0] == "" {
			return kernel.NewProblem(kernel.CodeBadRequest, wantTarget)
		}
	}
	switch status := history.Status(asked.values.Get("status")); status {
	case history.StatusPolling:
		return h.writeActive(w, r, c, asked)
	case history.StatusSolved, history.StatusError:
		return h.page(w, r, c, asked, func(ctx context.Context, q history.Query) (history.Page, error) {
			return h.Store.Tasks(ctx, status, q)
		})
	}
	return kernel.NewProblem(kernel.CodeBadRequest, "status must be solved, error or polling: ?status=error")
}

// Active is GET /history/active: the orders in flight that may have reached the provider.
func (h *Routes) Active(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	asked, err := readPageQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	return h.writeActive(w, r, c, asked)
}

// page runs a query and writes the page of records that the query returns.
func (h *Routes) page(w http.ResponseWriter, r *http.Request, c *kernel.Call, asked pageQuery,
	ask func(context.Context, history.Query) (history.Page, error),
) error {
	if h.Store == nil {
		return errNoHistory()
	}
	page, err := find(r, c, asked.Query, ask)
	if err != nil {
		return err
	}
	list := List{Currency: c.Access.Set.Currency}
	list.Records, list.Next = convertPage(w, asked, page.Records, page.More, historyRecord, func(r *history.Record) history.Position {
		return history.Position{Ended: r.Ended, ID: r.ID}
	})
	return respondTable(w, r, list, list.Records)
}

// convertPage converts the records of a page. The result next is the cursor of the next page, or ""
// on the last page. A Link header with the address of the next page is also set, because CSV has no
// field for the cursor.
func convertPage[From, To any](w http.ResponseWriter, asked pageQuery, found []From, more bool,
	show func(*From) To, at func(*From) history.Position,
) (list []To, next string) {
	list = make([]To, len(found))
	for i := range found {
		list[i] = show(&found[i])
	}
	if n := len(found); more && n > 0 {
		next = encodeCursor(at(&found[n-1]))
		asked.values.Set("cursor", next)
		w.Header().Set("Link", "<?"+asked.values.Encode()+`>; rel="next"`)
	}
	return list, next
}

// writeActive writes the orders in flight, sorted by the time of placing, the newest first.
func (h *Routes) writeActive(w http.ResponseWriter, r *http.Request, c *kernel.Call, asked pageQuery) error {
	all, err := h.Journal.OrdersInFlight(r.Context())
	if err != nil {
		return err
	}
	position := func(u *purchase.OrderInFlight) history.Position {
		return history.Position{Ended: u.Placed, ID: history.OrderID(&u.Purchase)}
	}
	all = slices.DeleteFunc(all, func(u purchase.OrderInFlight) bool { return !c.Sees(u.Target) || !asked.covers(position(&u), u.Target) })
	slices.SortFunc(all, func(a, b purchase.OrderInFlight) int { return newestFirst(position(&a), position(&b)) })
	list := ActiveList{Currency: c.Access.Set.Currency}
	list.Records, list.Next = convertPage(w, asked, all[:min(len(all), asked.Limit)], len(all) > asked.Limit, activeRecord, position)
	return respondTable(w, r, list, list.Records)
}

// newestFirst compares two positions in the order in which a store returns records.
func newestFirst(a, b history.Position) int {
	return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(b.ID, a.ID))
}

// Day is GET /history/day/{date}: the figures of one UTC day. The figures by type cover all
// targets, so a key that is limited to some targets does not see them.
func (h *Routes) Day(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	date, ok := readDay(c.Param(r, 0))
	if !ok {
		return kernel.NewProblem(kernel.CodeBadRequest, "the date must be a UTC day from 1970 to 9999: /history/day/2026-01-02")
	}
	if _, err := kernel.ReadValues(r.URL.RawQuery); err != nil {
		return err
	}
	if h.Store == nil {
		return errNoHistory()
	}
	figures, err := read(r, func(ctx context.Context) (history.Day, error) { return h.Store.Day(ctx, date) })
	if err != nil {
		return err
	}
	day := historyDay(date, figures, c.Sees)
	day.Currency = c.Access.Set.Currency
	if c.Caller.Globs != nil {
		day.Types = nil
	}
	return respondTable(w, r, day, day.rows())
}

// isKeyOrTask reports whether a text can be a site key or the id of a task.
func isKeyOrTask(text string) bool {
	n := utf8.RuneCountInString(text)
	return n > 0 && n <= longestSitekey && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(char rune) bool { return !unicode.IsPrint(char) })
}

// Solve is GET /history/solve/{id}: one ended order, found by its own id or by the provider's task
// id. The response is the same for an unknown order and for an order that the caller may not see.
func (h *Routes) Solve(w http.ResponseWriter, r *http.Request, c *kernel.Call) error {
	if _, err := kernel.ReadValues(r.URL.RawQuery); err != nil {
		return err
	}
	if h.Store == nil {
		return errNoHistory()
	}
	id := c.Param(r, 0)
	ask := h.Store.Task
	if history.IsOrder(id) {
		ask = h.Store.Solve
	}
	record, err := read(r, func(ctx context.Context) (*history.Record, error) {
		if !isKeyOrTask(id) {
			return nil, nil
		}
		record, found, err := ask(ctx, id)
		if !found {
			return nil, err
		}
		return &record, err
	})
	if err != nil {
		return err
	}
	if record == nil || !c.Sees(record.Target) {
		return kernel.NewProblem(kernel.CodeUnknownSolve,
			"no ended order or task has this id, or the history has dropped it; /history/active lists orders in flight")
	}
	one := historyRecord(record)
	return respondTable(w, r, Solve{one, c.Access.Set.Currency}, []Record{one})
}

// find queries the store for those targets of the query that the caller may see. If the caller may
// see none of the targets, the result is empty.
func find[T any](r *http.Request, c *kernel.Call, q history.Query, ask func(context.Context, history.Query) (T, error)) (found T, err error) {
	if q.Targets == nil {
		q.Targets = c.Visible()
	} else {
		q.Targets = slices.DeleteFunc(q.Targets, func(name string) bool { return !c.Sees(name) })
	}
	if q.Targets != nil && len(q.Targets) == 0 {
		return found, nil
	}
	return read(r, func(ctx context.Context) (T, error) { return ask(ctx, q) })
}

// read executes a query to a store within readLimit.
func read[T any](r *http.Request, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readLimit)
	defer cancel()
	found, err := ask(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w within %v", history.ErrDown, readLimit)
	}
	return found, err
}

// readDays queries a store for each day of a range. All these queries together must end within
// readLimit.
func readDays[T any](r *http.Request, first, last time.Time, ask func(context.Context, time.Time) (T, error), add func(date string, figures T)) error {
	_, err := read(r, func(ctx context.Context) (found T, err error) {
		for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
			if found, err = ask(ctx, day); err != nil {
				return found, err
			}
			add(day.Format(time.DateOnly), found)
		}
		return found, nil
	})
	return err
}

// errNoHistory returns the problem for a request to the history if no store is configured.
func errNoHistory() *kernel.Problem {
	return kernel.NewProblem(kernel.CodeNoHistory, "no history is kept: the configuration file has `history: {backend: none}`")
}
