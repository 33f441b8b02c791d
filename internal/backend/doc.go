// Package backend converts the settings of external services in pools.yaml to the options of their
// clients: Redis, PostgreSQL databases, the DynamoDB table and the TLS certificate. The
// daemon, `poold check` and `poold history init` share this package, so that all three open the same
// services. The package keeps no state and starts no goroutines.
package backend
