-- Several installations may keep claims and savings in one database. {prefix} is the prefix of the
-- installation that applies this file. Its replicas of the version before write rows without a prefix,
-- and find rows by the unique constraints on key and on (day, source) alone. All other installations
-- therefore put their prefix and a colon before the key and the source as well.
alter table captcha_cache add column prefix text not null default '{prefix}';
alter table captcha_savings add column prefix text not null default '{prefix}';
