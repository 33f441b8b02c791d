package status

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/panics"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/purchase/choice"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/replicas"
	"poold/internal/targets"
)

const (
	// sharedFor is how long requests get the same document, and the same state of the providers.
	sharedFor = time.Second
	// A document is used for restsFor times the time of its build, so that readers cost at most a fifth of a core. The
	// limit is restsMost, because a build may have been slow only because Redis or this process hung.
	restsFor, restsMost = 4, 5 * time.Second
	// readLimit limits all reads for a document.
	readLimit = 10 * time.Second
	// providersLimit limits how long a caller of an empty pool waits until the states of the providers are read.
	providersLimit = 250 * time.Millisecond
	// surveyPart is the number of targets in one exchange with Redis. surveysAtOnce is the number of concurrent exchanges,
	// so that poold decodes one reply while Redis executes another exchange.
	surveyPart, surveysAtOnce = 25, 4
	// UnknownLead is the assumed lead time before the first solve.
	UnknownLead = 15 * time.Second
	// fewReports is the minimum number of reports for the mark markRejected.
	fewReports = 5
)

// Reader reads what all replicas share; *pool.Pool implements it.
type Reader interface {
	Stocks(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	Hours(ctx context.Context, id captcha.ID) ([]pool.Period, error)
	Totals(ctx context.Context, scopes ...string) (pool.Totals, error)
}

// Providers reports on the providers of the file; *purchase.Buyer implements it.
type Providers interface {
	Providers(ctx context.Context) []purchase.ProviderStatus
	DeadLetterCount() int
}

// File is the configuration file; *reload.File implements it.
type File interface {
	// Current never returns nil.
	Current() *targets.Set
	// Status is the result of the last attempt to load the file.
	Status() targets.FileStatus
}

// Sources are the inputs of a Collector. No function blocks.
type Sources struct {
	File     File
	Pool     Reader
	Buyer    Providers
	Health   func() redisdb.Health
	History  func() history.Health      // nil = no history is kept
	Webhook  func() string              // why it is not told; "" = it is
	Replicas func() []replicas.Replica  // nil result = unknown
	Outcomes func() []choice.Comparison // compares the providers
	Log      *slog.Logger

	RedisMode string    // embedded | single | sentinel | cluster
	Version   string    // of the daemon
	StartedAt time.Time // of the daemon
}

// Collector builds documents. It is safe for concurrent use.
type Collector struct {
	Sources

	stopping  atomic.Bool
	changes   atomic.Uint64        // calls of Changed
	gone      atomic.Pointer[gone] // nil = none
	documents cached[*Document]
	providers cached[*providers]

	// The last good answers of Redis. Only the goroutine that builds a document uses them.
	stocks map[captcha.ID]pool.Stock
	totals *pool.Totals // nil = Redis has been away since the start
	readAt time.Time    // when all were read; zero = never
}

type providers struct {
	list []purchase.ProviderStatus
	set  *targets.Set
	at   time.Time
}

// cached has the last result of an expensive query. Readers that come while the query runs share its result.
type cached[T any] struct {
	making singleflight.Group
	last   T // guarded by making
}

func (c *cached[T]) get(isFresh func(T) bool, query func() T) T {
	for {
		got, _, _ := c.making.Do("", func() (any, error) {
			if !isFresh(c.last) {
				c.last = query()
			}
			return c.last, nil
		})
		if last, _ := got.(T); isFresh(last) { // a query that was under way may have begun before a change
			return last
		}
	}
}

// NewCollector returns a Collector without reading any source.
func NewCollector(s Sources) *Collector { return &Collector{Sources: s} }

// Gone notes that a replica sends no beats any more, although it did not stop.
func (c *Collector) Gone(replica string) { c.gone.Store(&gone{replica, time.Now()}) }

// Changed makes the current document obsolete, so that the next one shows a change.
func (c *Collector) Changed() { c.changes.Add(1) }

// Stopping makes the document obsolete. Every later document says that the daemon is not ready.
func (c *Collector) Stopping() {
	c.stopping.Store(true)
	c.Changed()
}

// Build returns a document of the current Set that is at most a second old. If builds take long, the document may be
// older: four times the duration of its build, but at most 5 s. The build continues if this caller hangs up, because
// other callers may wait for it.
func (c *Collector) Build(ctx context.Context) *Document {
	ctx, changes := context.WithoutCancel(ctx), c.changes.Load()
	isFresh := func(d *Document) bool {
		return d != nil && d.set == c.File.Current() && d.changes >= changes && time.Now().Before(d.until)
	}
	return c.documents.get(isFresh, func() *Document { return c.build(ctx) })
}

// Outage reports whether all providers are down, why, and when the first of them may be called again (zero = unknown).
// It is called for each request to an empty pool.
func (c *Collector) Outage(ctx context.Context) (reason string, until time.Time, is bool) {
	return outage(c.providersNow(context.WithoutCancel(ctx), c.File.Current()))
}

func (c *Collector) providersNow(ctx context.Context, set *targets.Set) []purchase.ProviderStatus {
	isFresh := func(p *providers) bool { return p != nil && p.set == set && time.Since(p.at) < sharedFor }
	return c.providers.get(isFresh, func() *providers {
		ctx, cancel := context.WithTimeout(ctx, providersLimit)
		defer cancel()
		return &providers{c.Buyer.Providers(ctx), set, time.Now()}
	}).list
}

// Detail returns the status of a target with its counts by minute and by hour; nil = the document lacks the target.
func (c *Collector) Detail(ctx context.Context, name string) *TargetDetail {
	d := c.Build(ctx)
	t, ok := d.Target(name)
	if !ok {
		return nil
	}
	detail := &TargetDetail{Target: *t, Currency: d.Currency}
	detail.Hour.TargetHour, detail.Hour.Minutes = t.Hour, t.Hour.Minutes
	periods, err := c.Pool.Hours(ctx, captcha.ID(t.Identity))
	if err != nil {
		c.Log.DebugContext(ctx, "hours not read for the status", "err", err)
		return detail
	}
	detail.LastDay = &TargetLastDay{}
	detail.LastDay.Counts, detail.LastDay.HitRate, detail.LastDay.Hours = sumPeriods(periods)
	return detail
}

func (c *Collector) build(ctx context.Context) *Document {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	began, changes, set := time.Now(), c.changes.Load(), c.File.Current()
	stocks, err := c.survey(ctx, set)
	isRead := func(s pool.Stock) bool { return !s.At.IsZero() }
	totalsErr := err
	if err == nil {
		totalsErr = c.readTotals(ctx, set)
	}
	asOf := began
	if totalsErr == nil {
		c.readAt = began
	} else if !c.readAt.IsZero() {
		asOf = c.readAt
	}
	totals := cmp.Or(c.totals, &pool.Totals{})
	providers, health := c.providersNow(ctx, set), c.Health()
	d := &Document{
		Version: c.Version, AsOf: stamp(asOf), StartedAt: stamp(c.StartedAt), Currency: set.Currency,
		DeadLetters: c.Buyer.DeadLetterCount(),
		Config:      configOf(c.File.Status(), set),
		Redis: Redis{Mode: c.RedisMode, OK: health.Up && (err == nil || slices.ContainsFunc(stocks, isRead)),
			Reason: health.Reason},
		Budget:  usage(float64(totals.Spent[pool.ScopeOverall].Day), float64(set.Budget.PerDay)),
		Budgets: []BudgetUse{},
		Savings: savingsOf(totals.Savings, c.notNow(totalsErr)),
		Targets: make([]Target, len(stocks)),
		set:     set, changes: changes, summed: totalsErr == nil,
	}
	if !d.Redis.OK && d.Redis.Reason == "" {
		d.Redis.Reason = redisdb.Reason(err)
	}
	d.Ready = (d.Redis.OK || health.Full) && !c.stopping.Load()
	if c.totals == nil {
		d.Budget = nil
	} else {
		d.SpentToday = new(Amount(1000 * totals.Spent[pool.ScopeSpent].MoneyDay))
	}
	if set.Solve != nil || totals.Guests.Guests > 0 { // after a reload without `solve`, until the last guest is gone
		d.Solve = solveOf(set, totals, c.notNow(totalsErr))
	}
	for _, limits := range sharedBudgets(set) {
		if spent, known := totals.Spent[limits.Scope]; known {
			b := budgetOf(limits, spent)
			d.Budgets = append(d.Budgets, b.Uses(limits.Scope)...)
		}
	}
	for _, r := range c.Replicas() {
		d.Replicas = append(d.Replicas,
			Replica{ID: r.ID, Version: r.Version, StartedAt: stamp(r.Started), Address: r.Address})
	}
	if c.History != nil {
		h := c.History()
		d.History = &History{OK: h.Down == "", Reason: h.Down, Sent: h.Sent, Dropped: h.Dropped,
			Waiting: totals.Rows, Unrecorded: totals.DroppedRows, since: h.Since}
	}
	d.Providers = providersOf(providers, c.Outcomes(), set)
	why, _, _ := outage(providers)
	if health.Full {
		why = health.Reason + ": nothing is bought"
	}
	for i := range stocks {
		d.Targets[i] = targetOf(set, &set.Targets[i], &stocks[i], totals.Spent[string(set.Targets[i].ID)], why, c.notNow(err))
	}
	d.announce(providers, health, c.gone.Load(), c.Webhook(), began)
	d.encode = sync.OnceValue(d.toJSON)
	d.until = time.Now().Add(min(max(sharedFor, restsFor*time.Since(began)), restsMost))
	return d
}

// survey reads the stock of all targets. An unreadable stock has the last known figures, so that no counter falls to
// zero, and the field At is zero.
func (c *Collector) survey(ctx context.Context, set *targets.Set) ([]pool.Stock, error) {
	stocks, queries := make([]pool.Stock, len(set.Targets)), make([]pool.Query, len(set.Targets))
	for i := range set.Targets {
		t := &set.Targets[i]
		stocks[i] = c.stocks[t.ID]
		lead := cmp.Or(refill.StatusOf(t, &stocks[i].Counts).Lead, UnknownLead)
		queries[i] = pool.Query{ID: t.ID, Margin: t.Margin, Lead: lead}
		stocks[i].At, stocks[i].NextExpiry = time.Time{}, -1 // it was relative to the time of the read
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(surveysAtOnce)
	for at := 0; at < len(queries); at += surveyPart {
		group.Go(func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
			defer cancel()
			panicked := panics.Contain(c.Log, "panic while reading the stock for the status", func() {
				var found []pool.Stock
				if found, err = c.Pool.Stocks(ctx, queries[at:min(at+surveyPart, len(queries))]); err == nil {
					copy(stocks[at:], found)
				}
			})
			return cmp.Or(err, panicked)
		})
	}
	err := group.Wait()
	if err != nil {
		c.Log.DebugContext(ctx, "stock not read for the status", "err", err)
	}
	c.stocks = map[captcha.ID]pool.Stock{}
	for i := range stocks {
		c.stocks[queries[i].ID] = stocks[i]
	}
	return stocks, err
}

// sharedBudgets lists the budgets that several identities share. It leaves out two: the limits on the number of solves
// in the overall budget, and the budget of the guests.
func sharedBudgets(set *targets.Set) (list []pool.Budget) {
	if set.Budget.Money != (targets.Money{}) {
		list = append(list, refill.Limits(pool.ScopeOverall, targets.Budget{Money: set.Budget.Money}))
	}
	for _, name := range slices.Sorted(maps.Keys(set.Owners)) {
		list = append(list, refill.Limits(pool.ScopeOwner+name, set.Owners[name].Budget))
	}
	for _, key := range set.Server.Keys { // those with one name have one budget
		limits := refill.Limits(pool.ScopeKey+key.Name, targets.Budget{Money: key.Budget})
		if limits.HasMoney() && !slices.Contains(list, limits) {
			list = append(list, limits)
		}
	}
	return list
}

// readTotals reads the sums over all identities, and the purchases of all scopes that limit money or are shared. If
// Redis does not answer, the last known figures stay.
func (c *Collector) readTotals(ctx context.Context, set *targets.Set) error {
	scopes := []string{pool.ScopeSolve, pool.ScopeOverall, pool.ScopeSpent}
	for _, limits := range sharedBudgets(set) {
		scopes = append(scopes, limits.Scope)
	}
	for i := range set.Targets {
		if t := &set.Targets[i]; t.Budget.Money != (targets.Money{}) {
			scopes = append(scopes, string(t.ID))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, redisdb.CallTimeout)
	defer cancel()
	t, err := c.Pool.Totals(ctx, slices.Compact(scopes)...) // the overall one may be there twice
	if err != nil {
		c.Log.DebugContext(ctx, "totals not read for the status", "err", err)
		return err
	}
	c.totals = &t
	return nil
}

// notNow returns a text that says why figures are not current and how old they are; "" = they are current.
func (c *Collector) notNow(err error) string {
	switch {
	case err == nil:
		return ""
	case c.readAt.IsZero():
		return redisdb.Reason(err) + "; no figures are known"
	}
	return redisdb.Reason(err) + "; the figures are of " + c.readAt.UTC().Format("15:04:05") + " UTC"
}
