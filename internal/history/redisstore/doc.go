// Package redisstore keeps the history in the daemon's own Redis, for some days: the
// newest 50 records of each site, the newest 1,000 of each status, the figures of each
// day, and a mark of each order, so that none is counted twice. All of it is in one slot.
package redisstore
