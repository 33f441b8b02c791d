package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
	"poold/internal/pool"
	"poold/internal/provider"
	"poold/internal/purchase"
	"poold/internal/refill"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// snapshotLife is how long a snapshot is shown. It bounds what status
	// requests can cost Redis, whoever sends them.
	snapshotLife = 200 * time.Millisecond
	// providersLife is longer: every caller that finds a pool empty asks.
	providersLife = time.Second
	// snapshotLimit bounds the making of a snapshot while Redis hangs, so that
	// the status answers within a second; providersLimit is a part of it.
	snapshotLimit  = 700 * time.Millisecond
	providersLimit = 250 * time.Millisecond
	// unknownLead stands for a lead time that nobody has told yet.
	unknownLead = 15 * time.Second
	// stateIdle is a target that wants nothing because nobody asks.
	stateIdle = "idle"
	// fewReports is how many reports must exist before they say something.
	fewReports = 5
)

// snapshot is the daemon at one moment, as all status answers show it. It is
// not altered once it is made.
type snapshot struct {
	status Status
	stocks []pool.Stock // as status.Targets, those with an Err as last known; nil where Redis did not answer
	booked bool         // status.Budget is what Redis says
}

// snapshotKey says which snapshot is current: another Set or a change made
// through the API makes the old one useless at once.
type snapshotKey struct {
	set     *targets.Set
	changes uint64
}

// snapshot returns the current snapshot, at most snapshotLife old.
func (s *Server) snapshot(ctx context.Context) *snapshot {
	key := snapshotKey{set: s.config.Current(), changes: s.changes.Load()}
	return s.snapshots.get(key, snapshotLife, func() *snapshot {
		// Others wait for it too, so it must survive the one who makes it.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), snapshotLimit)
		defer cancel()
		return s.take(ctx, key.set)
	})
}

// providerStates returns how the providers do, at most providersLife ago.
func (s *Server) providerStates(ctx context.Context) []purchase.Status {
	return s.providers.get(s.config.Current(), providersLife, func() []purchase.Status {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), providersLimit)
		defer cancel()
		return s.buyer.Providers(ctx, time.Now())
	})
}

// take makes a snapshot.
func (s *Server) take(ctx context.Context, set *targets.Set) *snapshot {
	states := s.providerStates(ctx)
	why, _, noProvider := providersDown(states)
	notes := make([]refill.Note, len(set.Targets))
	queries := make([]pool.Query, len(set.Targets))
	for i := range set.Targets {
		t := &set.Targets[i]
		note, ok := s.refill.Note(t.Name)
		if !ok {
			note = refill.Note{State: refill.OK, Reason: "starting", Lead: unknownLead}
		}
		notes[i] = note
		queries[i] = pool.Query{ID: t.ID, Margin: t.Margin, Lead: note.Lead}
	}
	snap := &snapshot{}
	stocks, err := s.stock.Survey(ctx, queries)
	at := time.Now()
	up := err == nil && len(stocks) == len(queries)
	if up {
		snap.stocks = stocks
	} else {
		s.log.DebugContext(ctx, "surveying the stock for a status", slog.Any("err", err))
		stocks = make([]pool.Stock, len(queries))
		for i := range stocks {
			stocks[i].Err = orElse(err, pool.ErrDown)
		}
	}
	s.fillIn(queries, stocks)
	health := s.stock.Health()
	redis := RedisStatus{Mode: s.redisMode, OK: up && health.Up, Reason: health.Reason}
	if !up && redis.Reason == "" {
		redis.Reason = pool.Reason(err)
	}
	snap.status = Status{
		Version:   s.version,
		Ready:     up && len(s.unready()) == 0,
		StartedAt: stamp(s.startedAt),
		Alarms:    redis.alarms(),
		Notices:   append(s.notices(set, states), health.Notices...),
		Config:    configStatus(s.config.Status(), set),
		Redis:     redis,
		Providers: providerStatuses(states, set),
		Targets:   make([]TargetStatus, len(stocks)),

		DeadLetters: s.buyer.DeadLetterCount(),
	}
	if n := s.buyer.DeadLettersSetAside(); n > 0 {
		snap.status.Notices = append(snap.status.Notices,
			fmt.Sprintf("%d files of the dead letters could not be read and were set aside as *.bad: they may hold paid tokens.", n))
	}
	for _, lost := range s.buyer.Stranded() {
		snap.status.Notices = append(snap.status.Notices,
			fmt.Sprintf("%d paid tasks of provider %s cannot be collected: no provider of the file has its account. They count until %s UTC; list it again (api, url and key as they were) to collect them.",
				lost.Orders, lost.Provider, lost.Until.UTC().Format("15:04:05")))
	}
	if noProvider {
		snap.status.Alarms = append(snap.status.Alarms, "Nothing is bought: "+why)
	}
	snap.status.Budget, snap.booked = s.overall(ctx, up)
	for i := range stocks {
		told := stocks[i].Err == nil
		if notes[i].State == refill.Paused && told {
			// Whether it still is, the file and the stock know better: a worker
			// notices the end of a pause a moment later.
			notes[i].State, notes[i].Reason = refill.OK, ""
		}
		if !told && (notes[i].State == refill.OK || notes[i].State == refill.Starved) {
			notes[i].State, notes[i].Reason = refill.Starved, pool.Reason(stocks[i].Err)+"; the figures are the last known ones"
		}
		snap.status.Targets[i] = targetStatus(&set.Targets[i], notes[i], &stocks[i], at)
		if noProvider && told {
			snap.status.Targets[i].cannotBuy(why)
		}
	}
	return snap
}

// overall returns the budget over all targets, and whether that is what Redis
// says or what it said before. Where it is down it is not asked.
func (s *Server) overall(ctx context.Context, up bool) (budget *Window, now bool) {
	if up {
		used, perDay, err := s.buyer.Booked(ctx)
		if err == nil {
			budget = window(used, perDay)
			s.booked.Store(budget)
			return budget, true
		}
		s.log.DebugContext(ctx, "reading the budget for a status", slog.Any("err", err))
	}
	return s.booked.Load(), false
}

// window returns a budget's state, nil where there is no limit.
func window(used, limit int) *Window {
	if limit <= 0 {
		return nil
	}
	return &Window{Used: used, Limit: limit}
}

// fillIn keeps what Redis said, for the time when it says nothing of a target, and
// puts that in where it does: counters that fall to zero would look like an identity
// that was never used.
func (s *Server) fillIn(queries []pool.Query, stocks []pool.Stock) {
	known := make(map[captcha.ID]pool.Stock, len(queries))
	before := s.known.Load()
	for i, q := range queries {
		err := stocks[i].Err
		if err != nil {
			if before != nil {
				stocks[i] = (*before)[q.ID]
			}
			stocks[i].NextExpiry, stocks[i].Windows = -1, nil // they are of another moment
			stocks[i].Err = err
		}
		known[q.ID] = stocks[i]
	}
	s.known.Store(&known)
}

// notices lists what an operator should know about this way of running poold.
func (s *Server) notices(set *targets.Set, providers []purchase.Status) []string {
	notices := []string{}
	for _, p := range providers {
		if p.Silent {
			notices = append(notices, "No callback of provider "+p.Name+" came for its last tasks, so they are polled: is its callback_url reachable for the service, and the base address alone?")
		}
	}
	simulated := usesSimulated(set)
	if simulated {
		notices = append(notices, "The provider is simulated: its tokens are made up and no site accepts them.")
	}
	if set.Redis.Embedded() && !simulated {
		notices = append(notices, "Redis is embedded: a restart loses all tokens and orders, also those that were paid for.")
	}
	return notices
}

func usesSimulated(set *targets.Set) bool {
	return slices.ContainsFunc(set.Providers, func(p targets.Provider) bool { return p.API == targets.APISimulated })
}

func configStatus(status targets.Status, set *targets.Set) ConfigStatus {
	c := ConfigStatus{LoadedAt: stamp(status.LoadedAt), OK: status.OK, Problems: []string{}, Warnings: []string{}}
	for _, p := range status.Problems {
		c.Problems = append(c.Problems, p.String())
	}
	for _, p := range set.Warnings {
		c.Warnings = append(c.Warnings, p.String())
	}
	return c
}

func providerStatuses(states []purchase.Status, set *targets.Set) []ProviderStatus {
	list := make([]ProviderStatus, len(states))
	for i, p := range states {
		list[i] = ProviderStatus{
			Name: p.Name, State: string(p.State.Kind), Reason: p.State.Reason,
			InFlight: p.InFlight, Concurrency: p.Concurrency, Balance: p.State.Balance,
			Callbacks: slices.ContainsFunc(set.Providers, func(q targets.Provider) bool { return q.Name == p.Name && q.CallbackURL != "" }),
		}
	}
	return list
}

// targetStatus tells how one target is doing.
func targetStatus(t *targets.Target, note refill.Note, stock *pool.Stock, at time.Time) TargetStatus {
	f := stock.Figures
	status := TargetStatus{
		Name: t.Name, Type: string(t.Identity.Type), Owner: t.Owner,
		State: note.State, Reason: note.Reason, Marks: marks(note, stock.Verdicts),
		Depth: t.Depth, Want: note.Want,
		Refill: string(t.Refill), Forecast: thousandths(note.Forecast), Risk: thousandths(note.Risk), Rail: note.Limit,
		Warm: note.Warm, Shadow: shadow(note.Shadow),
		Fresh: stock.Fresh, InFlight: stock.Orders, BoughtInFlight: stock.Bought, Unknown: stock.Unknown, Waiting: stock.Waiting,
		Requests: f.Requests, Hits: f.Hits, Waited: f.Waited, Misses: f.Misses, Bought: f.Bought,
		Solved: f.Solved, Expired: f.Expired, Discarded: f.Discarded, Failed: f.Failed, Lost: f.Lost, Junk: f.Junk, Returned: f.Returned,
		Accepted: f.Accepted, Rejected: f.Rejected,
		HitRate:         ratio(f.Hits, f.Hits+f.Waited+f.Misses), // who still waits has no outcome
		BoughtPerServed: ratio(f.Bought, f.Hits+f.Waited),
		LeadTime:        LeadTime{P50: percentile(stock.Leads, 50), P90: percentile(stock.Leads, 90)},
		Spent:           money(f.Spent),
	}
	if note.Shadow != nil {
		status.HitRateNeeds = note.Shadow.Need
	}
	status.Windows = warmWindows(stock.Windows, at)
	if t.Budget != (targets.Budget{}) {
		status.Budget = &TargetBudget{Hour: window(stock.HourUsed, t.Budget.PerHour), Day: window(stock.DayUsed, t.Budget.PerDay)}
	}
	if t.Refill == targets.RefillAdaptive {
		status.Credit = thousandths(note.Credit)
	}
	if stock.NextExpiry >= 0 {
		seconds := stock.NextExpiry.Round(time.Millisecond).Seconds()
		status.NextExpiry = &seconds
	}
	if note.State == refill.OK && note.Reason == "" && note.Want == 0 && stock.Waiting == 0 &&
		(note.Limit == policy.LimitIdle || note.Limit == policy.LimitNone && t.Refill == targets.RefillAdaptive) {
		status.State = stateIdle
	}
	// Somebody's decision explains an empty pool better than anything else.
	switch {
	case t.Paused:
		status.State, status.Reason = refill.Paused, "paused in the configuration file"
	case stock.Paused:
		status.State, status.Reason = refill.Paused, "paused by POST /pool/"+t.Name+"/pause"
	}
	return status
}

// cannotBuy says in the provider's words why nothing can be bought for a target, as
// its callers are told. What is the target's own matter explains more.
func (t *TargetStatus) cannotBuy(why string) {
	switch t.State {
	case refill.OK, refill.Starved, stateIdle:
		t.Reason = why
		if t.Want > t.Fresh+t.InFlight || t.Waiting > t.Fresh+t.InFlight {
			t.State = refill.Starved
		}
	}
}

// shadow tells what another way of refilling would have done; nil where nobody
// knows.
func shadow(s *policy.Shadow) *Shadow {
	if s == nil {
		return nil
	}
	way := targets.RefillFixed
	if s.Adaptive {
		way = targets.RefillAdaptive
	}
	return &Shadow{
		Refill: string(way), Depth: s.Depth, Since: stamp(s.Since),
		Requests: s.Requests, HitRate: tenThousandths(s.HitRate), Bought: s.Bought,
		ShadowHitRate: tenThousandths(s.ShadowHitRate), ShadowBought: s.ShadowBought, Text: s.String(),
	}
}

// warmWindows tells windows that were looked at then; never nil.
func warmWindows(windows []pool.Window, at time.Time) []WarmWindow {
	list := make([]WarmWindow, len(windows))
	for i, w := range windows {
		list[i] = WarmWindow{
			Tokens: w.Tokens,
			From:   stamp(at.Add(w.In).Round(time.Second)), // the way from Redis is not exact
			Until:  stamp(at.Add(w.Left).Round(time.Second)),
		}
	}
	return list
}

// marks lists what a person should look at; never nil.
func marks(note refill.Note, verdicts []bool) []string {
	list := []string{}
	if note.Failing {
		list = append(list, markFailing)
	}
	rejected := 0
	for _, accepted := range verdicts {
		if !accepted {
			rejected++
		}
	}
	if len(verdicts) >= fewReports && 2*rejected > len(verdicts) {
		list = append(list, markRejected)
	}
	return list
}

// forCaller returns the part of a status that a caller's globs include. The
// providers and the file are the daemon's and stay, without lines of the file
// that are about other targets.
func (s *Status) forCaller(c *caller) *Status {
	if c.globs == nil {
		return s
	}
	part := *s
	part.Targets = []TargetStatus{}
	for _, t := range s.Targets {
		if c.mayUse(t.Name) {
			part.Targets = append(part.Targets, t)
		}
	}
	part.Config.Problems, part.Config.Warnings = []string{}, []string{}
	return &part
}

// target finds one target's part; false if it came with a newer Set.
func (s *Status) target(name string) (*TargetStatus, bool) {
	i, ok := slices.BinarySearchFunc(s.Targets, name, func(t TargetStatus, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return nil, false
	}
	return &s.Targets[i], true
}

// asked reports whether a provider can be asked now or within seconds.
func asked(kind provider.StateKind) bool {
	return kind == provider.StateOK || kind == provider.StateBusy
}
