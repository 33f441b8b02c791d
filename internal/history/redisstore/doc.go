// Package redisstore keeps the history in the daemon's own Redis, for some days. It keeps the newest 50
// records of each site, the newest 1,000 records of each status, and the figures of each day. A mark
// for each order prevents that the order is counted twice. All these keys are in one slot.
//
// The audit keeps the newest 10,000 entries of each caller's key, and the figures of each day by key.
// Entries have no mark. If an entry is written again after 10,000 newer entries of its key, it is
// counted again.
//
// # Keys
//
// The prefix of these keys is "captcha":
//
//	captcha:solve:{history}:ORDER.id         string  "site|Unix ms" of a record
//	captcha:alias:{history}:HASH             string  ORDER.id of the newest record of a provider's task
//	captcha:records:{history}:site:HASH      zset    a record -> Unix ms of its end; the newest 50 of a site
//	captcha:records:{history}:STATUS         zset    a record -> Unix ms of its end; the newest 1,000 of a status
//	captcha:day:{history}:2006-01-02         hash    figures of that UTC day
//	captcha:audit:{history}:HASH             zset    "ID text" of an entry of a key -> Unix ms; the newest 10,000
//	captcha:usage:{history}:2006-01-02       hash    figures of that UTC day, by key
package redisstore
