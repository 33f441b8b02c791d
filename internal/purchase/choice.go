package purchase

// Choice says how the provider of an order was chosen.
type Choice string

// The ways in which a provider is chosen.
const (
	Ordered  Choice = "ordered"  // the first provider that was up
	Cheapest Choice = "cheapest" // the lowest price
	Best     Choice = "best"     // the lowest expected cost per accepted token
	Explore  Choice = "explore"  // another provider than the best one, to learn about it
	Probe    Choice = "probe"    // a provider that was down
)
