package status

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/history"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/targets"
)

const (
	// snapshotLife is how long a snapshot is shown. It bounds what status requests can
	// cost Redis, whoever sends them.
	snapshotLife = 200 * time.Millisecond
	// Of more than manyTargets a survey takes a second or longer. There a snapshot is
	// shown for manyLife, and while somebody has asked for one within watchedFor, Run
	// makes another each renewEvery, so that nobody waits for it.
	manyTargets = 1000
	manyLife    = 10 * time.Second
	renewEvery  = 4 * time.Second
	watchedFor  = time.Minute
	// providersLife is longer: every caller that finds a pool empty asks.
	providersLife = time.Second
	// providersLimit and budgetLimit bound the reading of what is under way at the
	// providers and of the overall budget, so that a status comes within a
	// second.
	providersLimit = 250 * time.Millisecond
	budgetLimit    = 200 * time.Millisecond
	// refreshLimit bounds the reading of what other replicas say.
	refreshLimit = 250 * time.Millisecond
	// surveyLimit bounds a survey, and that of many targets manySurveyLimit; see also
	// partLimit.
	surveyLimit     = 1500 * time.Millisecond
	manySurveyLimit = 10 * time.Second
	// unknownLead stands for a lead time that is not known yet.
	unknownLead = 15 * time.Second
)

// File is the configuration file; *reload.File implements it. Current must not be nil
// by the time the first snapshot is taken.
type File interface {
	Current() *targets.Set
	Status() targets.Status
}

// Stock knows what there is of each identity; *pool.Store implements it.
type Stock interface {
	// Survey answers in the order of the queries; see pool.Store.Survey.
	Survey(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	// Health returns how Redis serves; it does not block.
	Health() redisdb.Health
}

// Refill knows how the refilling of a target does; *refill.Manager implements it.
type Refill interface {
	// Refresh reads what other replicas say of the targets that they watch.
	Refresh(ctx context.Context) error
	// Status is false while no worker refills the target.
	Status(name string) (refill.Status, bool)
}

// Purchases knows how the buying does, over all targets; *purchase.Buyer implements it.
type Purchases interface {
	Providers(ctx context.Context, at time.Time) []purchase.Status
	// Booked returns what is used of the overall budget; perDay 0 = there is
	// none.
	Booked(ctx context.Context) (used, perDay int, err error)
	// BookedForGuests returns what is used of the budget over all guests in the last
	// 60 min and 24 h.
	BookedForGuests(ctx context.Context) (hour, day int, err error)
	// Stranded lists paid tasks that nobody can be asked about.
	Stranded() []purchase.Stranded
}

// Guests knows what there is of all identities that no target has; *pool.Guests
// implements it.
type Guests interface {
	Survey(ctx context.Context) (pool.GuestStock, error)
}

// Savings knows how requests to POST /solve came by their tokens; *redisclaims.Claims and
// *pgclaims.Claims implement it.
type Savings interface {
	// Days tells of the last days, today first.
	Days(ctx context.Context) ([]dedup.SavingsDay, error)
}

// DeadLetters counts the callbacks that could not be stored; *purchase.Buyer
// implements it.
type DeadLetters interface {
	DeadLetterCount() int
	DeadLettersSetAside() int
}

// HistoryHealth says how the history is written; *history.Sender implements it.
type HistoryHealth interface {
	Health() history.Health
}

// AuditHealth says how the audit is written; *history.Auditor implements it.
type AuditHealth interface {
	Health() history.AuditHealth
}

// Sources is whom a Collector asks, and what does not change while the daemon runs. All fields are
// required but History, Audit, RedisMode and Version.
type Sources struct {
	File        File
	Stock       Stock
	Refill      Refill
	Purchases   Purchases
	DeadLetters DeadLetters
	Guests      Guests
	Savings     Savings
	History     HistoryHealth // nil = none is kept
	Audit       AuditHealth   // nil = none is kept
	NearMisses  *compat.NearMisses
	// CallsPerToken is how many calls a provider took for each token that it brought to
	// this replica; 0 where it brought none.
	CallsPerToken func(provider string) float64
	Log           *slog.Logger

	RedisMode string    // embedded | single | sentinel | cluster
	Version   string    // of the daemon
	StartedAt time.Time // of the daemon
}

// Collector makes snapshots. Its methods may be used by many goroutines.
type Collector struct {
	Sources

	surveyor  surveyor
	booked    atomic.Pointer[Usage] // of the overall budget, as last read; nil = there is none
	guests    told[guests]
	savings   told[[]dedup.SavingsDay]
	stopping  atomic.Bool
	changes   atomic.Uint64 // counts what a snapshot taken before would miss
	changed   chan struct{} // wakes Run after a change; capacity 1
	asked     atomic.Int64  // when a snapshot was last asked for, as Unix time in ns
	snapshots cached[*Snapshot]
	providers cached[[]purchase.Status]
}

// NewCollector returns a Collector that has asked nobody yet.
func NewCollector(s Sources) *Collector {
	return &Collector{Sources: s, changed: make(chan struct{}, 1), surveyor: surveyor{stock: s.Stock, log: s.Log}}
}

// Changed makes the next snapshot a new one: something was altered that the last one
// does not show. Of many targets one is begun at once, and the last one shown meanwhile.
func (c *Collector) Changed() {
	c.changes.Add(1)
	select {
	case c.changed <- struct{}{}:
	default: // Run is to be woken already
	}
}

// Stopping makes the daemon unready from now on; it cannot be undone.
func (c *Collector) Stopping() {
	c.stopping.Store(true)
	c.Changed()
}

// Snapshot returns the current snapshot: one of this Set, at most 2 s old, and of many
// targets 15 s where a survey takes 5 s at most.
func (c *Collector) Snapshot(ctx context.Context) *Snapshot {
	c.asked.Store(time.Now().UnixNano())
	set := c.File.Current()
	of, life := c.terms(set)
	return c.snapshots.get(of, life, func() *Snapshot {
		// Others wait for it too, so it must survive the one who makes it.
		return c.take(context.WithoutCancel(ctx), set)
	})
}

// terms says which snapshots may be shown now, and for how long.
func (c *Collector) terms(set *targets.Set) (of revision, life time.Duration) {
	if many(set) {
		return revision{set: set}, manyLife
	}
	return revision{set: set, changes: c.changes.Load()}, snapshotLife
}

func many(set *targets.Set) bool { return len(set.Targets) > manyTargets }

// Run makes snapshots of many targets ahead of those who ask for them, and asks about
// on-demand solves ahead where the answers come slowly, until ctx ends. It may be called
// once.
func (c *Collector) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-time.After(renewEvery):
		}
		set := c.File.Current()
		watched := time.Since(time.Unix(0, c.asked.Load())) < watchedFor
		if watched && many(set) {
			of, life := c.terms(set)
			c.snapshots.renew(of, life, func() *Snapshot { return c.take(ctx, set) })
		}
		if watched && (c.guests.isSlow() || c.savings.isSlow()) {
			c.askOnDemand(ctx, set)
		}
	}
}

// Outage reports whether no provider can be asked, as known at most providersLife ago,
// why, and when the first of them may be asked again (zero: unknown).
func (c *Collector) Outage(ctx context.Context) (reason string, until time.Time, is bool) {
	return purchase.Outage(c.providersNow(ctx))
}

// providersNow returns how the providers do, at most providersLife ago.
func (c *Collector) providersNow(ctx context.Context) []purchase.Status {
	return c.providers.get(revision{set: c.File.Current()}, providersLife, func() []purchase.Status {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providersLimit)
		defer cancel()
		return c.Purchases.Providers(ctx, time.Now())
	})
}

// take makes a snapshot.
func (c *Collector) take(ctx context.Context, set *targets.Set) *Snapshot {
	onDemand := c.askOnDemand(ctx, set) // beside what follows
	providers := c.providersNow(ctx)
	statuses, queries := c.statuses(ctx, set)
	limit := surveyLimit
	if many(set) {
		limit = manySurveyLimit
	}
	asOf := time.Now()
	surveying, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen, err := c.surveyor.survey(surveying, queries)
	health := c.Stock.Health()
	redis := redisStatus(c.RedisMode, health, err)
	document := Document{
		Version:     c.Version,
		Ready:       redis.OK && !c.stopping.Load(),
		AsOf:        stamp(asOf),
		StartedAt:   stamp(c.StartedAt),
		Alarms:      redis.alarms(),
		Notices:     c.notices(set, providers, health),
		Config:      configStatus(c.File.Status(), set),
		Redis:       redis,
		DeadLetters: c.DeadLetters.DeadLetterCount(),
		Providers:   c.providerStatuses(providers, set),
		Targets:     make([]Target, len(seen)),
	}
	var read bool
	document.Budget, read = c.budget(ctx, err == nil)
	why, _, none := purchase.Outage(providers)
	if none {
		document.Alarms = append(document.Alarms, "Nothing is bought: "+why+remedies(providers))
	}
	for i := range seen {
		target := &document.Targets[i]
		*target = targetStatus(&set.Targets[i], statuses[i], &seen[i])
		if lacksPrice(set, set.Targets[i].Identity.Type) {
			target.unprice()
		}
		target.NearMisses = nearMisses(c.NearMisses.Of(set.Targets[i].ID))
		cause := CauseOf(&set.Targets[i], statuses[i], &seen[i].Stock, why)
		target.State, target.Reason = cause.State, cause.Reason
		if cause.State == refill.Refused {
			target.RetryAt = stamp(statuses[i].Until)
		}
	}
	guests := onDemand.tell(&document)
	if s := document.Solve; s != nil && s.Solved+s.Lost > 0 && lacksPrice(set, captcha.SolvableTypes()...) {
		s.Spent = s.Spent.orUnknown()
	}
	document.History, document.Audit = c.historyStatus(seen, guests), c.auditStatus()
	document.Notices = append(append(document.Notices, document.History.notices()...), document.Audit.notices()...)
	return newSnapshot(&document, seen, read, guests)
}

// statuses returns what refill says of each target, and how its stock is to be judged.
func (c *Collector) statuses(ctx context.Context, set *targets.Set) ([]refill.Status, []pool.Query) {
	ctx, cancel := context.WithTimeout(ctx, refreshLimit)
	defer cancel()
	if err := c.Refill.Refresh(ctx); err != nil {
		c.Log.DebugContext(ctx, "reading what other replicas say, for a status", slog.Any("err", err))
	}
	statuses := make([]refill.Status, len(set.Targets))
	queries := make([]pool.Query, len(set.Targets))
	for i := range set.Targets {
		t := &set.Targets[i]
		s, ok := c.Refill.Status(t.Name)
		if !ok {
			s = Starting
		}
		statuses[i] = s
		queries[i] = pool.Query{ID: t.ID, Margin: t.Margin, Lead: s.Lead, Hour: true}
	}
	return statuses, queries
}

// budget returns the one over all targets, and whether that is what Redis says now or
// what it said before. Where it is down it is not asked.
func (c *Collector) budget(ctx context.Context, up bool) (budget *Usage, now bool) {
	if !up {
		return c.booked.Load(), false
	}
	ctx, cancel := context.WithTimeout(ctx, budgetLimit)
	defer cancel()
	used, perDay, err := c.Purchases.Booked(ctx)
	if err != nil {
		c.Log.DebugContext(ctx, "reading the budget for a status", slog.Any("err", err))
		return c.booked.Load(), false
	}
	budget = usage(used, perDay)
	c.booked.Store(budget)
	return budget, true
}
