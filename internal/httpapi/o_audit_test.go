package httpapi

import (
	"testing"

	"poold/internal/ondemand"
	"poold/internal/pool"
	"poold/internal/targets"
)

// TestNoAudit: a daemon without one hands out and takes reports.
func TestNoAudit(t *testing.T) {
	a := audit{}
	c := &call{caller: anyone, access: &access{set: &targets.Set{}}}
	a.taken(c, &delivery{token: &pool.Token{Source: ondemand.FromSolve}})
	a.reported(c, "tok1", outcomeAccepted)
}
