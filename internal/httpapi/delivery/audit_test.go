package delivery

import (
	"testing"

	"poold/internal/httpapi/kernel"
	"poold/internal/pool"
	"poold/internal/solve"
	"poold/internal/targets"
)

// TestDeliveryWorksWithoutAnAudit: without an audit, tokens are handed out and reports are accepted.
func TestDeliveryWorksWithoutAnAudit(t *testing.T) {
	a := Audit{}
	c := &kernel.Call{Caller: kernel.Anyone, Access: &kernel.Access{Set: &targets.Set{}}}
	a.Taken(c, &Handout{Token: &pool.Token{Source: solve.FromSolve}})
	a.reported(c, "tok1", true)
}
