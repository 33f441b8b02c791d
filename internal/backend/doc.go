// Package backend translates what pools.yaml says of outside services into the options of
// their clients: solving services, PostgreSQL databases, the DynamoDB table and the TLS
// certificate. The daemon, `poold check` and `poold history init` share it, so that all three
// open the same things. It keeps no state and starts nothing.
package backend
