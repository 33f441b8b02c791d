package status

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/ondemand/dedup"
	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/refill"
	"poold/internal/replicas"
	"poold/internal/targets"
)

const (
	// snapshotLife is the life of a snapshot. snapshotLife limits the load of status requests on Redis.
	snapshotLife = 200 * time.Millisecond
	// A survey of more than manyTargets targets takes a second or longer, so a snapshot of so many
	// targets lives for manyLife. Run pauses for renewEvery between two snapshots, so that no reader waits.
	// If no request has come for the time watchedFor, Run makes no more snapshots.
	manyTargets = 1000
	manyLife    = 10 * time.Second
	renewEvery  = 4 * time.Second
	watchedFor  = time.Minute
	// providersLife is longer than snapshotLife, because each caller of an empty pool reads the
	// state of the providers.
	providersLife = time.Second
	// These constants limit the queries for the state of the providers, and for each sum over all targets. A
	// snapshot therefore takes at most a second.
	providersLimit = 250 * time.Millisecond
	sumLimit       = 200 * time.Millisecond
	// lastDayLimit limits the read of a target's last day, which is not in a snapshot.
	lastDayLimit = 250 * time.Millisecond
	// surveyLimit limits a survey of at most manyTargets targets, and manySurveyLimit limits a
	// larger survey; see also partLimit.
	surveyLimit     = 3 * time.Second
	manySurveyLimit = 10 * time.Second
	// unknownLead is the assumed lead time before the first solve.
	unknownLead = 15 * time.Second
)

// File is the configuration file; *reload.File implements it. Current must not return nil.
type File interface {
	Current() *targets.Set
	Status() targets.Status
}

// Stock reads what all replicas share; *pool.Pool implements it.
type Stock interface {
	// LookAll returns the results in the order of the queries.
	LookAll(ctx context.Context, queries []pool.Query) ([]pool.Stock, error)
	Hours(ctx context.Context, id captcha.ID) ([]pool.Period, error)
	LookGuests(ctx context.Context) (pool.GuestStock, error)
	// Spent returns the orders of a budget's scope in the last hour and day.
	Spent(ctx context.Context, scope string) (hour, day int, err error)
	Outbox(ctx context.Context, stream string) (waiting, dropped int64, err error)
}

// Purchases reports on the providers; *purchase.Buyer implements it.
type Purchases interface {
	Providers(ctx context.Context) []purchase.Status
	Stranded() []purchase.Stranded
}

// Savings counts the requests to POST /solve by outcome. Implementations: *redisclaims.Claims,
// *pgclaims.Claims.
type Savings interface {
	// Days returns the counts of the last days, today first.
	Days(ctx context.Context) ([]dedup.SavingsDay, error)
}

// DeadLetters counts the callbacks that could not be stored; *purchase.Buyer implements it.
type DeadLetters interface {
	DeadLetterCount() (letters, aside int)
}

// HistoryHealth reports on the writing of the history; *history.Sender implements it.
type HistoryHealth interface {
	Health() history.Health
}

// AuditHealth reports on the writing of the audit; *history.Auditor implements it.
type AuditHealth interface {
	Health() history.AuditHealth
}

// Sources are the inputs of a Collector. The fields Outcomes, History, Audit, RedisMode and Version are
// optional.
type Sources struct {
	File        File
	Stock       Stock
	Health      func() redisdb.Health // of Redis; it does not block
	Purchases   Purchases
	Outcomes    Outcomes // nil = the providers are not compared
	DeadLetters DeadLetters
	Savings     Savings
	History     HistoryHealth // nil = no history is kept
	Audit       AuditHealth   // nil = no audit is kept
	// Replicas returns the live replicas and does not block; nil = they are unknown.
	Replicas func() []replicas.Replica
	// CallsPerToken returns the number of calls to a provider per token that this replica got from the
	// provider. Before the first token the result is 0.
	CallsPerToken func(provider string) float64
	Log           *slog.Logger

	RedisMode string    // embedded | single | sentinel | cluster
	Version   string    // of the daemon
	StartedAt time.Time // of the daemon
}

// Collector makes snapshots. A Collector is safe for concurrent use.
type Collector struct {
	Sources

	surveyor   surveyor
	spent      atomic.Pointer[Usage] // last known overall budget; nil = there is no budget
	unrecorded atomic.Int64          // last known number of dropped rows of the history
	guests     source[guests]
	savings    source[[]dedup.SavingsDay]
	stopping   atomic.Bool
	changes    atomic.Uint64 // number of calls of Changed; part of the revision of a snapshot
	changed    chan struct{} // wakes Run after a change; capacity 1
	asked      atomic.Int64  // time of the last request for a snapshot, Unix ns
	snapshots  cached[*Snapshot]
	providers  cached[[]purchase.Status]
}

// NewCollector returns a Collector without reading any source.
func NewCollector(s Sources) *Collector {
	return &Collector{Sources: s, changed: make(chan struct{}, 1), surveyor: surveyor{stock: s.Stock, log: s.Log}}
}

// Changed makes the current snapshot obsolete. Callers call Changed after a change that the
// snapshot does not show. With many targets, Run begins a new snapshot immediately, and readers get
// the old snapshot until the new snapshot is complete.
func (c *Collector) Changed() {
	c.changes.Add(1)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Stopping makes the snapshot obsolete. Every later snapshot says that the daemon is not ready.
func (c *Collector) Stopping() {
	c.stopping.Store(true)
	c.Changed()
}

// Snapshot returns a snapshot of the current Set that is at most 2 s old. With many targets the
// snapshot is at most 15 s old, if a survey takes at most 5 s.
func (c *Collector) Snapshot(ctx context.Context) *Snapshot {
	c.asked.Store(time.Now().UnixNano())
	return c.snapshot(ctx)
}

// snapshot is Snapshot, but does not make Run renew the snapshots.
func (c *Collector) snapshot(ctx context.Context) *Snapshot {
	set := c.File.Current()
	of, life := c.terms(set)
	return c.snapshots.get(of, life, func() *Snapshot {
		// Other callers may also wait for the snapshot, so the snapshot is completed even if this caller
		// hangs up.
		return c.makeSnapshot(context.WithoutCancel(ctx), set)
	})
}

// terms returns the revision and the life of a snapshot that is begun now.
func (c *Collector) terms(set *targets.Set) (of revision, life time.Duration) {
	if many(set) {
		return revision{set: set}, manyLife
	}
	return revision{set: set, changes: c.changes.Load()}, snapshotLife
}

func many(set *targets.Set) bool { return len(set.Targets) > manyTargets }

// Run prepares data before readers need it, until ctx ends. It makes the snapshots of many targets,
// and queries the slow sources of on-demand solves. Run must be called at most once.
func (c *Collector) Run(ctx context.Context) error {
	for pause := renewEvery; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		case <-time.After(pause):
		}
		set, began := c.File.Current(), time.Now()
		watched := time.Since(time.Unix(0, c.asked.Load())) < watchedFor
		if watched && many(set) {
			of, life := c.terms(set)
			c.snapshots.renew(of, life, func() *Snapshot { return c.makeSnapshot(ctx, set) })
		}
		if watched && (c.guests.isSlow() || c.savings.isSlow()) {
			c.askOnDemand(ctx, set)
		}
		pause = max(renewEvery, time.Since(began)) // a long survey must leave Redis time for other calls
	}
}

// Outage reports whether all providers are down, why, and when the first provider may be called
// again (zero = unknown). The result is at most providersLife old.
func (c *Collector) Outage(ctx context.Context) (reason string, until time.Time, is bool) {
	return outage(c.providersNow(ctx))
}

// replicas lists the live replicas; nil = they are unknown.
func (c *Collector) replicas() (list []Replica) {
	if c.Replicas == nil {
		return nil
	}
	for _, r := range c.Replicas() {
		list = append(list, Replica{ID: r.ID, Version: r.Version, StartedAt: stamp(r.Started)})
	}
	return list
}

// providersNow returns the state of the providers, at most providersLife old.
func (c *Collector) providersNow(ctx context.Context) []purchase.Status {
	return c.providers.get(revision{set: c.File.Current()}, providersLife, func() []purchase.Status {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providersLimit)
		defer cancel()
		return c.Purchases.Providers(ctx)
	})
}

// makeSnapshot queries all sources and combines their data into a snapshot.
func (c *Collector) makeSnapshot(ctx context.Context, set *targets.Set) *Snapshot {
	onDemand := c.askOnDemand(ctx, set) // runs concurrently with the rest
	providers := c.providersNow(ctx)
	limit := surveyLimit
	if many(set) {
		limit = manySurveyLimit
	}
	asOf := time.Now()
	surveying, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen, err := c.surveyor.survey(surveying, set)
	health := c.Health()
	redis := redisStatus(c.RedisMode, health, err)
	letters, aside := c.DeadLetters.DeadLetterCount()
	document := Document{
		Version:     c.Version,
		Ready:       (redis.OK || health.Full) && !c.stopping.Load(),
		AsOf:        stamp(asOf),
		StartedAt:   stamp(c.StartedAt),
		Currency:    set.Currency,
		Replicas:    c.replicas(),
		Alarms:      redis.alarms(health, asOf),
		Notices:     []string{}, // an empty list, because the JSON must not have null
		Config:      configStatus(c.File.Status(), set),
		Redis:       redis,
		DeadLetters: letters,
		Providers:   c.providerStatuses(providers, set),
		Targets:     make([]Target, len(seen)),
	}
	c.compareProviders(&document, asOf)
	var read bool
	document.Budget, read = c.overallBudget(ctx, set, err == nil)
	why, _, _ := outage(providers)
	for i := range seen {
		document.Targets[i] = c.completeTarget(set, &set.Targets[i], &seen[i], why)
	}
	guests := onDemand.fill(&document)
	if s := document.Solve; s != nil && s.Solved+s.Lost > 0 && lacksPrice(set, captcha.SolvableTypes()...) {
		s.Spent = s.Spent.orUnknown()
	}
	document.History, document.Audit = c.historyStatus(ctx), c.auditStatus()
	alarms, notices := outages(providers, asOf)
	document.Alarms = append(document.Alarms, alarms...)
	shared := sharedReasons(&document)
	for _, more := range [][]string{
		shared, notices, c.notices(set, providers, health, aside, asOf), document.History.notices(asOf),
		document.Audit.notices(asOf),
	} {
		document.Notices = append(document.Notices, more...)
	}
	document.shared = len(shared)
	return newSnapshot(&document, set, seen, read, guests)
}

// completeTarget returns the status of a target with all its fields. The argument why is the reason
// why no provider can be used; "" = one can.
func (c *Collector) completeTarget(set *targets.Set, t *targets.Target, seen *observation, why string) Target {
	refilling := refill.StatusOf(t, &seen.Counts)
	target := targetStatus(t, refilling, seen)
	if lacksPrice(set, t.Identity.Type) {
		target.unprice()
	}
	cause := CauseOf(t, refilling, &seen.Counts, why)
	if seen.Err != nil && (refilling.State == refill.OK || refilling.State == refill.Starved) {
		cause.State, cause.Reason = refill.Starved, redisdb.Reason(seen.Err)+lastKnown
	}
	target.State, target.Reason = cause.State, cause.Reason
	if cause.State == refill.Refused {
		target.RetryAt = stamp(refilling.Until)
	}
	return target
}

// overallBudget reads the overall budget. If Redis is down or the read fails, overallBudget returns
// the last known budget and false.
func (c *Collector) overallBudget(ctx context.Context, set *targets.Set, up bool) (budget *Usage, now bool) {
	limit := set.Budget.PerDay
	if limit == 0 {
		return nil, true
	}
	if up {
		ctx, cancel := context.WithTimeout(ctx, sumLimit)
		defer cancel()
		_, used, err := c.Stock.Spent(ctx, pool.ScopeAll)
		if err == nil {
			c.spent.Store(usage(used, limit))
			return c.spent.Load(), true
		}
		c.Log.DebugContext(ctx, "budget not read for the status", slog.Any("err", err))
	}
	return c.spent.Load(), false
}
