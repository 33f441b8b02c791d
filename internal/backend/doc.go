// Package backend converts the settings of external services in pools.yaml to the options of their
// clients: solving services, PostgreSQL databases, the DynamoDB table and the TLS certificate. The
// daemon, `poold check` and `poold history init` share it, so that all three open the same services. It
// keeps no state and starts nothing.
package backend
