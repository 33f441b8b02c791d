package refill

import (
	"slices"

	"poold/internal/pool"
	"poold/internal/purchase"
	"poold/internal/targets"
)

// Spec returns the part of an order that is the same for all orders of a target.
func Spec(t *targets.Target, set *targets.Set) purchase.Spec {
	return purchase.Spec{
		Target: t.Name, Owner: t.Owner, Identity: t.Identity, ID: t.ID, Margin: t.Margin, Lifetime: t.Lifetime,
		SimulatedOnly: t.SimulatedOnly, Policy: string(t.ProvidersPolicy),
		Budgets: Budgets(set, string(t.ID), t.Budget, t.Owner),
	}
}

// Budgets returns the budgets that count an order: the budget of its target, of its owner, and the overall budget.
// Budgets without a limit are left out.
func Budgets(set *targets.Set, scope string, own targets.Budget, owner string) (list []pool.Budget) {
	return slices.DeleteFunc([]pool.Budget{
		Limits(scope, own), Limits(pool.ScopeOwner+owner, set.Owners[owner].Budget), Limits(pool.ScopeOverall, set.Budget),
	}, func(b pool.Budget) bool { return b == pool.Budget{Scope: b.Scope} })
}

// Limits converts a budget of the file to the limits of a scope.
func Limits(scope string, b targets.Budget) pool.Budget {
	perDay, perMonth := b.Micros()
	return pool.Budget{Scope: scope, PerHour: b.PerHour, PerDay: b.PerDay, MicrosPerDay: perDay, MicrosPerMonth: perMonth}
}
