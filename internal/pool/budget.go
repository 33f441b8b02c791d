package pool

import (
	"context"
	"regexp"
	"strings"
	"time"
)

// Budget limits the orders of a scope in any 60 minutes and in any 24 hours, and their cost in a UTC day and a UTC
// month. A value of 0 means no limit. The scope of a target is its identity.
type Budget struct {
	Scope                        string
	PerHour, PerDay              int
	MicrosPerDay, MicrosPerMonth int64 // millionths of the currency
}

// HasMoney reports whether the budget limits money.
func (b *Budget) HasMoney() bool { return b.MicrosPerDay+b.MicrosPerMonth > 0 }

// The scopes that several identities share.
const (
	ScopeOverall = "overall" // every order
	ScopeSolve   = "/solve"  // orders without a target
	ScopeOwner   = "owner:"  // and the owner's name: the orders of an owner
	ScopeKey     = "key:"    // and the key's name: the tokens that a key took
	ScopeSpent   = "spent"   // the money of every order that ended and cost something; it has no limits
)

// afford reports whether a budget in money is used up.
// Its steps are in testdata/money.txt, those of the budgets of orders in place.txt.
var afford = newScript("afford", `
-- KEYS 1 money:SCOPE, which selects the node
-- ARGV 1 scope 2 micros_per_day 3 micros_per_month
-- Reply {ms until there is room, spent}, or {} if it is not used up
local spent, opens = overspent(ARGV[1], 1, ARGV[2], ARGV[3])
return spent and {opens - now, spent} or {}
`)

// BudgetName names the budget of a scope as part of a sentence, such as "the budget of owner qa@example.com".
func BudgetName(scope, target string) string {
	kind, name, _ := strings.Cut(scope, ":")
	switch {
	case scope == ScopeOverall:
		return "the overall budget"
	case scope == ScopeSolve:
		return "the budget of solves without a target"
	case kind+":" == ScopeOwner, kind+":" == ScopeKey:
		return "the budget of " + kind + " " + name
	}
	return "the budget of " + target
}

// ToldUsedUp is called when a budget refuses an order of a target, or a take (without a target). The argument spent
// says how much of the budget is used, and opens is the time when it has room again.
type ToldUsedUp func(scope, target, spent string, opens time.Time)

// RoomAgain says in words when a used-up budget has room again, rounded up to a minute. It ignores some milliseconds,
// by which a caller that adds a pause to its own clock is late.
func RoomAgain(at time.Time) string {
	return "there is room again at " + at.UTC().Round(time.Second).Add(time.Minute-1).Format("2006-01-02 15:04 UTC")
}

// moneyUse matches a text such as "2 of 1.5 on this UTC day", and finds its amounts.
var moneyUse = regexp.MustCompile(`^(\S+) of (\S+)( (?:on|in) this UTC .*)$`)

// priced adds the currency to the use of a budget in money.
func (p *Pool) priced(spent string) string {
	if m := moneyUse.FindStringSubmatch(spent); m != nil {
		return p.c.Money(m[1]) + " of " + p.c.Money(m[2]) + m[3]
	}
	return spent
}

// UsedUp returns a sentence that says that a budget is used up, followed by spent unless it is "".
func UsedUp(whose, spent string) string {
	return strings.TrimSuffix(whose+" is used up: "+spent, ": ")
}

// keyBudget returns the error for a call whose key has used up its budget.
func (p *Pool) keyBudget(c *Call, spent string, opens time.Duration) error {
	spent = p.priced(spent)
	until := time.Now().Add(opens)
	return &FailedError{NotPlaced: ReasonBudget, Until: until, Scope: c.Budget.Scope, Spent: spent,
		Reason: UsedUp("the budget of this key", spent) + "; " + RoomAgain(until)}
}

// Affords returns nil if the caller's budget has room, and otherwise the error that a take would return.
func (p *Pool) Affords(ctx context.Context, c *Call) error {
	if !c.Budget.HasMoney() {
		return nil
	}
	v, err := p.runScript(ctx, afford, []string{p.key("money", c.Budget.Scope)}, c.Budget.Scope, c.Budget.MicrosPerDay,
		c.Budget.MicrosPerMonth)
	if err == nil && len(v) > 0 {
		err = p.keyBudget(c, text(v[1]), span(v[0]))
	}
	return err
}
