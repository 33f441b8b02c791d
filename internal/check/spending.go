package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"poold/internal/backend"
	"poold/internal/captcha"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// soonestCallback is the assumed minimum time from the submission of an order to its token, with
// callbacks. A person needs at least this time to solve a CAPTCHA.
const soonestCallback = 5 * time.Second

// Purchases is the maximum that poold can buy for one target, for POST /solve, or in total.
type Purchases struct {
	Name      string
	hour, day float64 // maximum number of solves
	price     float64 // price of one solve at the most expensive provider
	unpriced  bool    // whether the file lacks the price of a type at one of the providers
	bounded   bool    // whether a budget limits the purchases
	halted    string  // see targets.Target.Halted
	currency  targets.Currency
}

// Assumes returns a clause with the conditions under which poold buys the maximum that the method
// String describes, or "" if poold buys nothing.
func (p Purchases) Assumes() string {
	if p.hour == 0 {
		return ""
	}
	return "all threads are always busy, each solve is as short as the first poll allows, and callers and expired tokens use up all that is bought"
}

// money returns a comma and the cost of this number of solves. The result is "" if a price is
// unknown.
func (p Purchases) money(solves float64) string {
	cost := solves * p.price
	switch {
	case p.unpriced:
		return ""
	case cost == 0:
		return ", free"
	case cost < 10:
		return ", about " + p.currency.With(fmt.Sprintf("%.2f", cost))
	}
	return ", about " + p.currency.With(thousands(cost))
}

// String returns a clause such as "at most 72,000 solves an hour, about 86 USD".
func (p Purchases) String() string {
	switch {
	case p.halted != "":
		return "nothing is bought: " + p.halted
	case p.hour == 0:
		return "nothing is bought"
	}
	text := "at most " + thousands(p.hour) + " solves an hour" + p.money(p.hour)
	if p.day < 24*p.hour {
		text += "; " + thousands(p.day) + " a day" + p.money(p.day)
	}
	return text
}

// thousands formats a number, rounded to an integer, with commas between thousands.
func thousands(n float64) string {
	digits := fmt.Sprintf("%.0f", math.Round(n))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Spending is the maximum that poold can buy with a file.
type Spending struct {
	Each       []Purchases // purchases of each target and of POST /solve, the most expensive first
	All        Purchases
	Shortfalls []string // sentences about depths that the providers' concurrency cannot keep full
	Exhausted  []string // sentences about budgets that the stock uses up without any caller
	unpriced   []string // sentences about prices that the file lacks, one for each provider
}

// SpendingOf returns the most that poold can buy with a configuration.
func SpendingOf(set *targets.Set) Spending {
	s := Spending{unpriced: unpriced(set)}
	threads, shortest, needed, idle := 0, time.Duration(math.MaxInt64), 0.0, 0.0
	for _, p := range set.Providers {
		threads += p.Concurrency
	}
	for i := range set.Targets {
		t := &set.Targets[i]
		soonest, usual := leadsOf(set, t.Identity.Type, t.Usable())
		p := mostOf(set, t, threads, soonest)
		s.Each = append(s.Each, p)
		if t.Halted() != "" {
			continue
		}
		shortest = min(shortest, soonest)
		kept := t.Depth
		if t.Refill == targets.RefillAdaptive {
			kept = t.Min
		}
		hourly := float64(kept) * time.Hour.Seconds() / t.Usable().Seconds() // each token is replaced when it expires
		if t.IdleAfter == 0 {
			idle += hourly
			if lasts := budgetLasts(t.Budget, hourly); lasts != "" {
				s.Exhausted = append(s.Exhausted, fmt.Sprintf("%s: without any caller, to keep %d ready takes about %s solves an hour, so %s; add idle_after, raise the budget, or lower depth or min",
					t.Name, kept, thousands(hourly), lasts))
			}
		}
		takes := policy.ThreadsToKeep(kept, usual, t.Usable())
		needed += takes
		if takes > float64(threads) {
			s.Shortfalls = append(s.Shortfalls, fmt.Sprintf("%s: %d tokens cannot be kept: at the usual %v a solve they need about %s threads; the %d that there are keep about %s",
				t.Name, kept, usual, thousands(math.Ceil(takes)), threads, thousands(math.Floor(float64(kept)*float64(threads)/takes))))
		}
	}
	if len(s.Shortfalls) == 0 && needed > float64(threads) {
		s.Shortfalls = append(s.Shortfalls, fmt.Sprintf("in all, the targets need about %s threads at the usual lead times, and there are %d", thousands(math.Ceil(needed)), threads))
	}
	if lasts := budgetLasts(targets.Budget{PerDay: set.Budget.PerDay}, idle); lasts != "" && len(s.Exhausted) == 0 {
		s.Exhausted = append(s.Exhausted, fmt.Sprintf("in all, without any caller, to keep the tokens ready takes about %s solves an hour, so %s", thousands(idle), lasts))
	}
	s.add(set, threads, shortest)
	return s
}

// budgetLasts returns a clause that says how long a budget lasts if the given number of solves is
// bought each hour; "" = the budget suffices.
func budgetLasts(b targets.Budget, hourly float64) string {
	switch {
	case b.PerHour > 0 && hourly > float64(b.PerHour):
		return fmt.Sprintf("per_hour %d lasts %.0f min of each hour", b.PerHour, 60*float64(b.PerHour)/hourly)
	case b.PerDay > 0 && 24*hourly > float64(b.PerDay):
		return fmt.Sprintf("per_day %d lasts %.1f h of each day", b.PerDay, float64(b.PerDay)/hourly)
	}
	return ""
}

// leadsOf returns the shortest and the usual lead time according to the file. The lead time is the
// time from the submission of an order to its token.
func leadsOf(set *targets.Set, of captcha.Type, usable time.Duration) (soonest, usual time.Duration) {
	soonest = time.Duration(math.MaxInt64)
	for _, p := range set.Providers {
		first, interval := backend.ProviderConfig(p).Pace(of)
		if usual == 0 { // the first provider stands for all, because a policy other than ordered chooses while poold runs
			usual = policy.Params{FirstPoll: first, PollInterval: interval, Usable: usable}.Lead()
		}
		if p.CallbackURL != "" {
			first = min(first, soonestCallback)
		}
		soonest = min(soonest, first)
	}
	return soonest, usual
}

// mostOf returns the maximum that poold can buy for a target.
func mostOf(set *targets.Set, t *targets.Target, threads int, soonest time.Duration) Purchases {
	p := Purchases{Name: t.Name, bounded: t.Budget != targets.Budget{} || set.Budget.PerDay > 0, currency: set.Currency}
	p.priceOf(set, t.Identity.Type)
	if p.halted = t.Halted(); p.halted != "" {
		p.bounded = true
		return p
	}
	deepest := t.Depth
	for _, w := range t.Warm {
		deepest = max(deepest, w.Tokens)
	}
	p.hour = policy.Ceiling{
		Depth: deepest, Waiting: 2*t.Depth + 10, Threads: threads, Lead: soonest, Usable: t.Usable(), Rate: t.Rate.PerSecond(),
	}.PerHour()
	p.limit(t.Budget)
	return p
}

// priceOf raises p.price to the highest price of this type among the providers.
func (p *Purchases) priceOf(set *targets.Set, t captcha.Type) {
	for _, provider := range set.Providers {
		p.price = max(p.price, provider.Price.For(t))
		p.unpriced = p.unpriced || !provider.Price.Known(t)
	}
}

// solvedTypes returns the types of CAPTCHA that POST /solve can buy; nil if the file does not enable
// POST /solve.
func solvedTypes(set *targets.Set) []captcha.Type {
	switch {
	case set.Solve == nil:
		return nil
	case set.Solve.Images:
		return captcha.SolvableTypes()
	}
	return slices.DeleteFunc(captcha.SolvableTypes(), func(t captcha.Type) bool { return t == captcha.Image })
}

// unpriced returns one sentence for each provider without prices of wanted types.
func unpriced(set *targets.Set) (lines []string) {
	wanted := solvedTypes(set)
	for i := range set.Targets {
		wanted = append(wanted, set.Targets[i].Identity.Type)
	}
	for _, p := range set.Providers {
		var lacking []string
		for _, t := range captcha.SolvableTypes() {
			if slices.Contains(wanted, t) && !p.Price.Known(t) {
				lacking = append(lacking, string(t))
			}
		}
		if len(lacking) > 0 {
			lines = append(lines, fmt.Sprintf("providers.%s.price_per_1000: no price for %s, so what these solves cost is unknown; write 0 for what is free",
				p.Name, strings.Join(lacking, ", ")))
		}
	}
	return lines
}

// limit reduces the purchases to a budget.
func (p *Purchases) limit(b targets.Budget) {
	if b.PerHour > 0 {
		p.hour = min(p.hour, float64(b.PerHour))
	}
	p.day = 24 * p.hour
	if b.PerDay > 0 {
		p.day = min(p.day, float64(b.PerDay))
		p.hour = min(p.hour, p.day)
	}
}

// add appends POST /solve and computes the sum of all purchases. Targets and POST /solve share the
// threads and the overall budget.
func (s *Spending) add(set *targets.Set, threads int, shortest time.Duration) {
	if set.Solve != nil {
		solve := Purchases{Name: "/solve", hour: math.MaxInt32, bounded: true, currency: set.Currency}
		solve.limit(set.Solve.Budget)
		for _, t := range solvedTypes(set) {
			solve.priceOf(set, t)
		}
		s.Each = append(s.Each, solve)
	}
	s.All = Purchases{Name: "in all", bounded: true, currency: set.Currency}
	cost := 0.0
	for _, p := range s.Each {
		s.All.hour += p.hour
		s.All.day += p.day
		s.All.bounded = s.All.bounded && p.bounded
		s.All.unpriced = s.All.unpriced || p.unpriced && p.hour > 0
		cost += p.hour * p.price
	}
	if s.All.hour > 0 {
		s.All.price = cost / s.All.hour // average price of a solve
	}
	day := s.All.day
	if set.Solve == nil { // this bound does not apply with POST /solve, whose lead times are unknown
		s.All.hour = min(s.All.hour, float64(threads)*time.Hour.Seconds()/shortest.Seconds())
	}
	s.All.limit(targets.Budget{PerDay: set.Budget.PerDay})
	s.All.day = min(s.All.day, day)
	slices.SortStableFunc(s.Each, func(a, b Purchases) int {
		return cmp.Or(cmp.Compare(b.hour*b.price, a.hour*a.price), cmp.Compare(b.hour, a.hour))
	})
}

// mostPrinted is the maximum number of targets that the command prints. The command prints the most
// expensive targets.
const mostPrinted = 50

// text formats the spending for `poold check`. Each line begins with its class: "note" for a fact,
// or "warning". If the provider is simulated, the text has no warnings about prices and budgets,
// because tokens cost nothing.
func (s Spending) text(simulated bool) string {
	var text strings.Builder
	for i, p := range s.Each {
		if i == mostPrinted {
			fmt.Fprintf(&text, "note: and %d more\n", len(s.Each)-i)
			break
		}
		if p.bounded || simulated {
			fmt.Fprintf(&text, "note: %s: %v\n", p.Name, p)
		} else {
			fmt.Fprintf(&text, "warning: %s: %v; no budget limits it\n", p.Name, p)
		}
	}
	fmt.Fprintf(&text, "note: %s: %v", s.All.Name, s.All)
	if assumed := s.All.Assumes(); assumed != "" {
		text.WriteString("; this assumes that " + assumed)
	}
	text.WriteString("\n")
	lines := s.Shortfalls
	if !simulated {
		lines = slices.Concat(lines, s.Exhausted, s.unpriced)
	}
	for _, line := range lines {
		text.WriteString("warning: " + line + "\n")
	}
	return text.String()
}

// Unbounded returns the names of the targets without a budget, the most expensive first.
func (s Spending) Unbounded() (names []string) {
	for _, p := range s.Each {
		if !p.bounded {
			names = append(names, p.Name)
		}
	}
	return names
}
