package status

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
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

// targetOf builds the entry of a target. The argument outage is the reason why no provider can be used; "" = some
// provider can be used. The argument stale is the reason why the stock may be outdated.
func targetOf(set *targets.Set, t *targets.Target, s *pool.Stock, spends pool.Spending, outage, stale string) Target {
	plan, f, priced := refill.StatusOf(t, &s.Counts), &s.Counters, !lacksPrice(set, t.Identity.Type)
	cause := CauseOf(t, plan, &s.Counts, outage)
	if s.At.IsZero() && (plan.State == refill.OK || plan.State == refill.Starved) {
		cause.State, cause.Reason = refill.Starved, stale
	}
	target := Target{
		Name: t.Name, Type: string(t.Identity.Type), Identity: string(t.ID), Owner: t.Owner,
		Sitekey: t.Identity.Sitekey, Pageurl: t.Identity.Pageurl, Depth: t.Depth, Refill: string(t.Refill),
		State: cause.State, Reason: cause.Reason, FailedInARow: s.Brake.FailedInARow,
		Marks: marks(plan.Failing && cause.State != refill.Refused, s.Reports),
		Want:  plan.Want, Forecast: thousandths(plan.Forecast), Risk: thousandths(plan.Risk), LimitedBy: plan.Limit,
		Warm: plan.Warm, Fresh: s.Fresh, Ageing: s.Fresh - s.Outliving, InFlight: s.Orders, BoughtInFlight: s.Bought,
		Unknown: s.Unknown, Waiting: s.Waiting, Counters: countersOf(f, s.Waiting), Spent: spent(f, priced),
		HitRate:         ratio(f.Hits, f.Hits+f.Waited+f.Missed), // requests without an outcome do not count
		BoughtPerServed: ratio(f.Bought, f.Hits+f.Waited),
		LeadTime:        LeadTime{P50: percentile(s.Leads, 50), P90: percentile(s.Leads, 90)},
		NextExpiry:      known(s.NextExpiry >= 0, seconds(s.NextExpiry)),
		Days:            []TargetDay{}, LastFailures: []LastFailure{},
		counted: *f, objective: t.HitRate, unread: s.At.IsZero(), outage: cause.Outage,
	}
	if cause.State == refill.Refused {
		target.RetryAt = stamp(plan.Until)
	}
	if cause.State == plan.State && !cause.Outage {
		target.Since = stamp(plan.Since)
	}
	if t.Refill == targets.RefillAdaptive {
		target.Credit = thousandths(plan.Credit)
	}
	target.Hour.Counts, target.Hour.HitRate, target.Hour.Minutes = sumPeriods(s.Minutes)
	for _, day := range slices.Backward(s.Days) {
		target.Days = append(target.Days, TargetDay{
			Date: day.At.Format(time.DateOnly), Counts: countsOf(&day.Counters), Failed: day.Failed, Lost: day.Lost,
			Expired: day.Expired, Spent: spent(&day.Counters, priced),
		})
	}
	for _, f := range s.Failures {
		target.LastFailures = append(target.LastFailures, LastFailure{At: stamp(f.At), Reason: f.Reason})
	}
	if t.Budget != (targets.Budget{}) {
		spends.Hour, spends.Day = s.SolvesHour, s.SolvesDay
		target.Budget = new(budgetOf(refill.Limits(string(t.ID), t.Budget), spends))
	}
	return target
}

// marks lists the marks of a target. The result is never nil.
func marks(failing bool, reports []bool) []string {
	list := []string{}
	if failing {
		list = append(list, markFailing)
	}
	rejected := 0
	for _, accepted := range reports {
		if !accepted {
			rejected++
		}
	}
	if len(reports) >= fewReports && 2*rejected > len(reports) {
		list = append(list, markRejected)
	}
	return list
}

// solveOf converts the sums over all guests. The argument stale says why the sums are not current; "" = they are
// current.
func solveOf(set *targets.Set, t *pool.Totals, stale string) *Solve {
	section := cmp.Or(set.Solve, &targets.Solve{})
	g, f := t.Guests, &t.Guests.Counters
	return &Solve{
		Owner: section.Owner, Reason: stale,
		Guests: g.Guests, Fresh: g.Fresh, InFlight: g.Orders, BoughtInFlight: g.Bought, Waiting: g.Waiting,
		Counters: countersOf(f, g.Waiting), Denied: f.Denied, Replays: f.Replays,
		Spent:   spent(f, !lacksPrice(set, captcha.SolvableTypes()...)),
		Budget:  budgetOf(refill.Limits(pool.ScopeSolve, section.Budget), t.Spent[pool.ScopeSolve]),
		counted: *f,
	}
}

// savingsOf converts and sums the savings. The argument stale says why the savings are not current; "" = they are
// current.
func savingsOf(days []pool.SavingsDay, stale string) *Savings {
	d, sum := Savings{Days: append([]pool.SavingsDay{}, days...), Reason: stale}, map[pool.SavingsSource]int64{}
	for _, day := range days {
		for source, n := range day.BySource {
			sum[source] += n
			d.Requests += n
		}
	}
	d.Missed, d.Denied = sum[pool.SavedMissed], sum[pool.SavedDenied]
	d.Saved = sum[pool.SavedWaiting] + sum[pool.SavedAfter] + sum[pool.SavedReplay]
	if served := d.Served(); served > 0 {
		d.SavedPct = math.Round(1000*float64(d.Saved)/float64(served)) / 10
	}
	return &d
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

func configOf(status targets.FileStatus, set *targets.Set) Config {
	c := Config{LoadedAt: stamp(status.LoadedAt), OK: status.OK, RefusedAt: stamp(status.RefusedAt), Problems: []string{},
		Warnings: []string{}}
	for _, p := range status.Problems {
		c.Problems = append(c.Problems, p.String())
	}
	for _, p := range set.Warnings {
		c.Warnings = append(c.Warnings, p.String())
	}
	return c
}

// providersOf converts the states of the providers, with the rows that compare them.
func providersOf(states []purchase.ProviderStatus, rows []choice.Comparison, set *targets.Set) []Provider {
	list := make([]Provider, len(states))
	for i, p := range states {
		list[i] = Provider{
			Name: p.Name, State: string(p.State.Kind), Reason: p.State.Reason, Remedy: p.State.Remedy,
			Since: stamp(p.State.Since), Balance: p.State.Balance,
			InFlight: p.InFlight, Concurrency: p.Concurrency,
			Callbacks: slices.ContainsFunc(set.Providers,
				func(q targets.Provider) bool { return q.Name == p.Name && q.CallbackURL != "" }),
			Types: []ProviderType{},
		}
		if time.Until(p.State.Until) > 0 { // a provider that no order needs is not tried
			list[i].RetryAt = stamp(p.State.Until)
		}
		for _, r := range rows {
			if r.Provider == p.Name {
				list[i].Types = append(list[i].Types, ProviderType{
					Type: string(r.Type), Share: thousandths(r.Share), Solved: thousandths(r.Solved),
					Cost: known(r.Cost >= 0, math.Round(r.Cost*1e9)/1e9), Accepted: known(r.Reports > 0, thousandths(r.Accepted)),
					LeadP50: seconds(r.LeadP50), LeadP90: seconds(r.LeadP90),
				})
			}
		}
	}
	return list
}

// usage returns the use of a budget; nil if the budget has no limit.
func usage(used, limit float64) *Usage {
	if limit <= 0 {
		return nil
	}
	return &Usage{used, limit}
}

// budgetOf returns the use of the budgets of a scope.
func budgetOf(limits pool.Budget, s pool.Spending) Windows {
	money := func(micros, limit int64) *Usage { return usage(float64(micros)/1e6, float64(limit)/1e6) }
	return Windows{
		Hour:     usage(float64(s.Hour), float64(limits.PerHour)),
		Day:      usage(float64(s.Day), float64(limits.PerDay)),
		MoneyDay: money(s.MoneyDay, limits.MicrosPerDay), MoneyMonth: money(s.MoneyMonth, limits.MicrosPerMonth),
	}
}

// countersOf converts counters, given the number of callers that wait now.
func countersOf(f *pool.Counters, waiting int) Counters {
	c := Counters{
		Counts: countsOf(f), Expired: f.Expired, Flushed: f.Flushed, Failed: f.Failed, Lost: f.Lost, Returned: f.Returned,
		Accepted: f.Accepted, Rejected: f.Rejected,
	}
	c.Requests += int64(waiting)
	return c
}

func countsOf(f *pool.Counters) Counts {
	return Counts{
		Requests: f.Hits + f.Waited + f.Missed + f.Left + f.Denied,
		Hits:     f.Hits, Waited: f.Waited, Missed: f.Missed, Bought: f.Bought, Solved: f.Solved,
	}
}

// sumPeriods converts periods, and returns the sums of their counts and the share of hits.
func sumPeriods(periods []pool.Period) (sum Counts, hitRate float64, list []TargetPeriod) {
	list = make([]TargetPeriod, len(periods))
	for i, p := range periods {
		n := countsOf(&p.Counters)
		list[i] = TargetPeriod{At: stamp(p.At), Counts: n}
		sum = Counts{
			sum.Requests + n.Requests, sum.Hits + n.Hits, sum.Waited + n.Waited, sum.Missed + n.Missed,
			sum.Bought + n.Bought, sum.Solved + n.Solved,
		}
	}
	return sum, ratio(sum.Hits, sum.Hits+sum.Waited+sum.Missed), list
}

// stamp formats a time. For the zero time the result is "".
func stamp(t time.Time) string { return history.Time{Time: t}.String() }

// known returns a pointer to a figure, or nil if the figure is unknown.
func known(is bool, figure float64) *float64 {
	if !is {
		return nil
	}
	return &figure
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// ratio returns a/b, rounded to four decimal places; 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e4) / 1e4
}

// seconds converts a duration to seconds, rounded to the millisecond. Duration.Seconds is not
// precise enough, because it returns 4.8870000000000005 for 4.887 s.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// percentile returns the p-th percentile by nearest rank, in seconds; 0 for an empty list.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := (len(sorted)*p + 99) / 100 // the rank is rounded up; the first rank is 1
	return seconds(sorted[rank-1])
}
