package pool

import (
	"testing"
	"time"
)

// The service may still solve an order after its timeout. So the price of a late order is spent, like
// the price of a lost order. A failed order costs nothing.
func testLateAndLostOrdersSpendTheirPrice(t *testing.T, o Options) {
	o.Prefix = "cost"
	s, id := open(t, o), identity("cost")
	for _, step := range []struct {
		failure    Failure
		spent      int64
		failed, of int64
	}{
		{Failure{Bought: true}, 0, 1, 0},
		{Failure{Bought: true, Late: true}, 7, 2, 0},
		{Failure{Bought: true, Lost: true, Late: true}, 14, 2, 1},
	} {
		step.failure.Ref = Ref{id, string('a' + rune(step.spent))}
		placeOrder(t, s, Order{Ref: step.failure.Ref, Depth: 9, TTL: time.Minute, Price: 7})
		expect(t, Ended)(s.Fail(t.Context(), step.failure))
		if f := look(t, s, id).Figures; f.Spent != step.spent || f.Failed != step.failed || f.Lost != step.of {
			t.Errorf("%+v: spent %d, %d failed, %d lost", step.failure, f.Spent, f.Failed, f.Lost)
		}
	}
}
