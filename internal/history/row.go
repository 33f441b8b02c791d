package history

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/purchase"
)

// Order describes an order that ended, or is in flight. Its fields are the columns of the API, of CSV, of
// the terminal and of each store. It never contains a token, a picture or a proxy.
//
// The comments are the list in docs/history.md and the descriptions in openapi.yaml. A comment is about all fields up
// to the next one.
type Order struct {
	// of the order; the `id` of its token begins with it
	ID string `json:"id"`
	// the target and its owner at that time; `/solve` is a guest
	Target string `json:"target"`
	Owner  string `json:"owner"`
	// for GeeTest `sitekey` is the `gt` or `captcha_id`; a picture has no site key and no page
	Type    captcha.Type `json:"type"`
	Sitekey string       `json:"sitekey"`
	Pageurl string       `json:"pageurl"`
	// the service and its task id; empty if unknown
	Provider string `json:"provider"`
	Task     string `json:"task"`
	// `solved`, or `error` for each other end; `polling` in flight
	Status Status `json:"status"`
	// the [end](#records-and-figures); empty in flight
	Outcome Outcome `json:"outcome"`
	// the service's error code; `TIMEOUT` if the timeout passed (or a `lost` order's submit got no clear answer),
	// `unreadable_solution` if poold cannot read the solution
	Code string `json:"code"`
	// UTC, by Redis' clock; empty if that step did not happen. `solved_at` is the earliest moment at which the token can
	// have been solved; its age counts from there
	PlacedAt    Time `json:"placed_at"`
	SubmittedAt Time `json:"submitted_at"`
	SolvedAt    Time `json:"solved_at"`
	EndedAt     Time `json:"ended_at"`
	// from the submit to the end, or to now
	ElapsedMS int64 `json:"elapsed_ms"`
	// the polls of the replica that ended it
	Polls int `json:"polls"`
	// `submit`, `poll`, `callback` or `deadline`
	EndedBy string `json:"ended_by"`
	// the cost, by `price_per_1000` when the order was placed; `null` if the file had no price for the type, 0 if the
	// order [cost nothing](#what-an-order-costs)
	Price Money `json:"price"`
	// why this provider was chosen: `ordered`, `cheapest`, `best`, `explore` (to learn about a provider that is not the
	// best) or `probe` (the provider was down); empty = unknown
	Choice string `json:"choice"`
}

// OrderOf converts a purchase to an Order in flight. RowOf adds the end of the order.
func OrderOf(p *purchase.Purchase) Order {
	return Order{
		ID: p.Order, Target: p.Target, Owner: p.Owner, Type: p.Identity.Type, Sitekey: p.Identity.Site(),
		Pageurl: p.Identity.Pageurl, Provider: p.Provider, Task: p.Task, Status: StatusPolling, Code: p.Code,
		PlacedAt: Time{p.Placed}, SubmittedAt: Time{p.Submitted}, SolvedAt: Time{p.Solved}, Polls: p.Polls,
		EndedBy: p.EndedBy, Price: Money(p.Price), Choice: p.Choice,
	}
}

// IsOrder reports whether a text has the form of an order's ID. If the id of a provider's task has this form, a query
// cannot find the order by this id.
func IsOrder(text string) bool { return orderForm.MatchString(text) }

var orderForm = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// Outcome is how an order ended.
type Outcome string

// The outcomes of orders.
const (
	Solved    Outcome = "solved"    // its token was added to the stock
	Discarded Outcome = "discarded" // its token had expired
	Failed    Outcome = "failed"    // the service failed or timed out, or sold an earlier token again
	Refused   Outcome = "refused"   // the service refused the submit, and nothing was bought
	Lost      Outcome = "lost"      // the deadline passed without a result
)

// Status groups orders for queries.
type Status string

// The statuses of orders.
const (
	StatusSolved  Status = "solved"
	StatusError   Status = "error" // every other end
	StatusPolling Status = "polling"
)

// Costs reports whether an order costs its price: the service has solved the task, even with a token that it sold
// before, or may still solve it after a timeout here.
func (o *Order) Costs() bool {
	switch o.Outcome {
	case Solved, Discarded, Lost:
		return true
	case Failed:
		return o.Code == purchase.CodeTimeout || o.Code == purchase.CodeUnreadable || o.Code == string(pool.Repeated)
	case Refused:
	}
	return false
}

// Handout is an action of a caller's key, such as taking a token, waiting in vain, or reporting on a token. It contains
// no token. Its comments are used as those of an Order.
type Handout struct {
	// the row's id, and its time, UTC by Redis' clock
	ID string `json:"id"`
	At Time   `json:"at"`
	// the name of the key; `-` for calls without a key
	Key string `json:"key"`
	// `taken`, `bought` (taken, and bought for this call), `returned` (to the stock, because the answer did not leave),
	// `missed`, or a report: `accepted` or `rejected`
	Action Action `json:"action"`
	// the target; `/solve` for a guest
	Target string `json:"target"`
	// the order of the token; empty if none came
	Order string `json:"order"`
	// the [`source`](api.md#a-token) of the answer; empty unless a token was handed out
	Source string `json:"source"`
	// for a picture `sha256:`, the hash of its bytes, and the number of bytes
	Image string `json:"image"`
	// the price of the token (`null` if the file has none); 0 if another caller pays, and without a token
	Price Money `json:"price"`
}

// Ask has the columns of a Handout that are known before a take. Their JSON names are those of Handout, since both are
// decoded from its JSON. The scripts of package pool add the other columns.
type Ask struct {
	Key    string `json:"key"`
	Target string `json:"target"`
	Image  string `json:"image,omitempty"`
	Buys   bool   `json:"buys,omitempty"` // no column: if the call waits, its token is bought for it
}

// Row returns the text that package pool keeps with the call.
func (a Ask) Row() string {
	text, _ := json.Marshal(a) // of texts: no error is possible
	return string(text)
}

// Keyless stands for the key's name if a call has no key. No key can have this name.
const Keyless = "-"

// Action is the kind of a Handout.
type Action string

// The actions of keys.
const (
	Taken    Action = "taken"
	Bought   Action = "bought"
	Returned Action = "returned"
	Missed   Action = "missed"
	Accepted Action = "accepted"
	Rejected Action = "rejected"
)

// Row is a line of the history as a store keeps it. Text is the whole row; the other fields are those by which a store
// finds it.
type Row struct {
	Kind    RowKind         `json:"kind"`
	ID      string          `json:"id"` // unique among the rows of its kind
	At      time.Time       `json:"at"`
	Target  string          `json:"target"`
	Owner   string          `json:"owner"`
	Sitekey string          `json:"sitekey"` // of an order
	Task    string          `json:"task"`    // of an order
	Status  Status          `json:"status"`  // of an order
	Key     string          `json:"key"`     // of a hand-out
	Text    json.RawMessage `json:"content"` // the Order or Handout
	Sums    []Sum           `json:"-"`       // what the row adds to the figures of its day
}

// RowKind is the kind of a row.
type RowKind string

// The kinds of rows.
const (
	KindOrder   RowKind = "order"
	KindActive  RowKind = "active" // an order in flight: only for programs that read the store
	KindHandout RowKind = "handout"
)

// Sum is one set of figures of a UTC day, or the figures that one row adds to such a set.
type Sum struct {
	Day   string // 2006-01-02
	Scope Scope
	Name  string // of the type, target, provider or key
	Owner string // of a target, when its orders were placed
	Figures
}

// Scope says whose figures a Sum has.
type Scope string

// The scopes of figures.
const (
	ScopeType     Scope = "type"
	ScopeTarget   Scope = "target"
	ScopeProvider Scope = "provider"
	ScopeKey      Scope = "key"
)

// Figures are counts by name. Types, targets and providers have the outcomes of orders, elapsed_ms (from submit to end,
// of solved and discarded orders), spent (known prices, in billionths of the currency) and unpriced (orders of unknown
// price). Keys have the actions, spent and unpriced.
type Figures map[string]int64

// Add adds figures.
func (f Figures) Add(more Figures) {
	for name, n := range more {
		f[name] += n
	}
}

// Orders returns the number of orders.
func (f Figures) Orders() (n int64) {
	for _, outcome := range []Outcome{Solved, Discarded, Failed, Refused, Lost} {
		n += f[string(outcome)]
	}
	return n
}

// Spent returns the sum of the known prices. It returns MoneyUnknown if the sum is 0 and a price is unknown.
func (f Figures) Spent() Money {
	if f["spent"] == 0 && f["unpriced"] > 0 {
		return MoneyUnknown
	}
	return Money(f["spent"])
}

func (f Figures) pay(price Money) {
	if price < 0 {
		f["unpriced"]++
	} else if price > 0 {
		f["spent"] += int64(price)
	}
}

// Position returns the place of an ended order in the sequence that Find returns.
func (o Order) Position() Position { return Position{o.EndedAt.Time, o.ID} }

// Position returns the place of a hand-out in the sequence that Find returns.
func (h Handout) Position() Position { return Position{h.At.Time, h.ID} }

// Row returns the row of an order.
func (o *Order) Row() Row {
	if o.Status != StatusPolling && !o.Costs() {
		o.Price = 0
	}
	clean(o)
	r := Row{Kind: KindOrder, ID: o.ID, At: o.EndedAt.Time, Target: o.Target, Owner: o.Owner, Sitekey: o.Sitekey,
		Task: o.Task, Status: o.Status}
	r.Text, _ = json.Marshal(o) // of texts, numbers and times: no error is possible
	if o.Status == StatusPolling {
		r.Kind, r.At = KindActive, o.SubmittedAt.Time
		return r
	}
	f := Figures{string(o.Outcome): 1}
	if o.Outcome == Solved || o.Outcome == Discarded {
		f["elapsed_ms"] = o.ElapsedMS
	}
	f.pay(o.Price)
	day := r.At.UTC().Format(time.DateOnly)
	r.Sums = []Sum{{day, ScopeType, string(o.Type), "", f}, {day, ScopeTarget, o.Target, o.Owner, f},
		{day, ScopeProvider, o.Provider, "", f}}
	return r
}

// Row returns the row of a hand-out.
func (h *Handout) Row() Row {
	clean(h)
	r := Row{Kind: KindHandout, ID: h.ID, At: h.At.Time, Target: h.Target, Key: h.Key}
	r.Text, _ = json.Marshal(h)
	f := Figures{string(h.Action): 1}
	f.pay(h.Price)
	r.Sums = []Sum{{r.At.UTC().Format(time.DateOnly), ScopeKey, h.Key, "", f}}
	return r
}

// mostBytes is the maximum length of a text, because DynamoDB and PostgreSQL limit the length of texts in an index.
const mostBytes = 500

// Clean returns a text as stores keep it: without bytes that some store refuses, and at most 500 bytes long. The texts
// of a query must be cleaned in the same way.
func Clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > mostBytes {
		text = strings.ToValidUTF8(text[:mostBytes], "")
	}
	return text
}

// clean cleans all texts of a record.
func clean(record any) {
	for _, at := range reflect.ValueOf(record).Elem().Fields() {
		if at.Kind() == reflect.String {
			at.SetString(Clean(at.String()))
		}
	}
}

// Time is a time in whole milliseconds. As text it is RFC 3339 in UTC with three decimals, so that texts sort as
// times do; the zero time is "".
type Time struct{ time.Time }

const timeForm = "2006-01-02T15:04:05.000Z"

func (t Time) String() string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timeForm)
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(text []byte) (err error) {
	var form string
	if err = json.Unmarshal(text, &form); err == nil && form != "" {
		t.Time, err = time.Parse(timeForm, form)
	}
	return err
}

// Money is an amount in billionths of the currency; an amount below 0 is unknown. Its text is in units of the
// currency. An unknown amount is "" as text, and null in JSON.
type Money int64

// MoneyUnknown is an unknown amount.
const MoneyUnknown Money = -1

func (m Money) String() string {
	if m < 0 {
		return ""
	}
	return strconv.FormatFloat(float64(m)/1e9, 'f', -1, 64)
}

// MarshalJSON implements json.Marshaler.
func (m Money) MarshalJSON() ([]byte, error) {
	if m < 0 {
		return []byte("null"), nil
	}
	return []byte(m.String()), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *Money) UnmarshalJSON(text []byte) error {
	var amount *float64
	err := json.Unmarshal(text, &amount)
	*m = MoneyUnknown
	if amount != nil {
		*m = Money(*amount*1e9 + 0.5)
	}
	return err
}
