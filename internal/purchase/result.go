package purchase

// Outcome is how an order ended.
type Outcome string

const (
	Solved Outcome = "solved"
	// Failed: the task brought no token, or its submit was refused for a reason that
	// nobody knows.
	Failed Outcome = "failed"
	// Lost: nobody can say what became of the order. It counts as bought.
	Lost    Outcome = "lost"
	Refused Outcome = "refused" // the target's parameters; not bought
	Busy    Outcome = "busy"    // capacity or account; not bought
	// Elsewhere: another replica ended the order or took it over; this one cannot say
	// how it ended.
	Elsewhere Outcome = "elsewhere"
	// Interrupted: a stop, or Redis, came before the order had ended. It was taken
	// back if it had not been submitted, and stays in the journal if it had.
	Interrupted Outcome = "interrupted"
)

// sentences say for people what an order came to.
var sentences = map[Outcome]string{
	Failed:  "the task brought no token",
	Lost:    "the order's fate is unknown",
	Refused: "the provider finds fault with the parameters",
	Busy:    "the provider can take no order now",
}

// Result is how an order ended, and why.
type Result struct {
	Outcome Outcome
	// Hopeless: the provider finds fault with the target's parameters, at the submit
	// or later, so that another order with the same ones is in vain.
	Hopeless bool
	Err      error // nil where Solved
}

// finish ends the work on an order with a result that came from elsewhere. The first
// one counts.
func (o *Order) finish(r Result) {
	o.outside.CompareAndSwap(nil, &r)
	o.stop()
}
