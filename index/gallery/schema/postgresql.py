"""The gallery's tables in PostgreSQL, and their migrations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from index.gallery.schema import require_known

if TYPE_CHECKING:
    import psycopg

CHANGES = "face_gallery"
"""Notification channel for commits that change photos; the payload is the schema's name."""

SHARED = "face_shared"
"""The same for changes of the documents that servers share."""

_V1 = """
CREATE TABLE meta (key text PRIMARY KEY, value bytea NOT NULL);

CREATE TABLE secrets (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value bytea NOT NULL);

CREATE TABLE people (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    secret bigint NOT NULL REFERENCES secrets (id),
    name_tag bytea NOT NULL,
    profile bytea NOT NULL,
    created double precision NOT NULL,
    updated double precision NOT NULL
);
CREATE INDEX people_by_name ON people (name_tag);

CREATE TABLE photos (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    person bigint NOT NULL REFERENCES people (number),
    secret bigint NOT NULL REFERENCES secrets (id),
    hash_tag bytea NOT NULL,
    quality double precision,
    details bytea NOT NULL,
    created double precision NOT NULL
);
CREATE INDEX photos_by_person ON photos (person);
CREATE INDEX photos_by_hash ON photos (hash_tag);

CREATE TABLE embeddings (
    photo bigint PRIMARY KEY REFERENCES photos (id) ON DELETE CASCADE,
    model_id text NOT NULL,
    vector bytea NOT NULL
);
CREATE TABLE thumbnails (
    photo bigint PRIMARY KEY REFERENCES photos (id) ON DELETE CASCADE,
    image bytea NOT NULL
);
-- Sealed bytes cannot be compressed.
ALTER TABLE embeddings ALTER COLUMN vector SET STORAGE EXTERNAL;
ALTER TABLE thumbnails ALTER COLUMN image SET STORAGE EXTERNAL;

CREATE TABLE changes (
    seq bigint PRIMARY KEY,
    operation text NOT NULL CHECK (operation IN ('put', 'drop')),
    photo bigint NOT NULL,
    token bigint NOT NULL
);

CREATE TABLE counts (people bigint NOT NULL, photos bigint NOT NULL);
INSERT INTO counts VALUES (0, 0);

CREATE FUNCTION count_people() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE counts SET people = people
        + (CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END) * (SELECT count(*) FROM touched);
    RETURN NULL;
END $$;
CREATE FUNCTION count_photos() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE counts SET photos = photos
        + (CASE TG_OP WHEN 'INSERT' THEN 1 ELSE -1 END) * (SELECT count(*) FROM touched);
    RETURN NULL;
END $$;
CREATE TRIGGER person_added AFTER INSERT ON people REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION count_people();
CREATE TRIGGER person_removed AFTER DELETE ON people REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION count_people();
CREATE TRIGGER photo_added AFTER INSERT ON photos REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION count_photos();
CREATE TRIGGER photo_removed AFTER DELETE ON photos REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION count_photos();

CREATE FUNCTION announce_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('face_gallery', TG_TABLE_SCHEMA);
    RETURN NULL;
END $$;
CREATE TRIGGER changes_announced AFTER INSERT ON changes
    FOR EACH STATEMENT EXECUTE FUNCTION announce_changes();
"""

_V2 = """
-- Handles of erased secrets that wait to be deleted from a store of their own.
CREATE TABLE dropped_secrets (handle bytea PRIMARY KEY);
"""

_V3 = """
-- What the servers of a gallery share beside its people.
CREATE TABLE documents (name text PRIMARY KEY, version bigint NOT NULL, content bytea);
CREATE TABLE audit (seq bigint PRIMARY KEY, line bytea NOT NULL);
-- Empty again after a crash of the database, which no limit needs to outlive.
CREATE UNLOGGED TABLE rates (
    caller bytea PRIMARY KEY,
    tokens double precision NOT NULL,
    counted timestamptz NOT NULL
);
-- Counts a request in a token bucket of so many a minute; returns the seconds to wait.
CREATE FUNCTION take_token(who bytea, most double precision) RETURNS double precision
LANGUAGE plpgsql AS $$
DECLARE available double precision;
BEGIN
    INSERT INTO rates VALUES (who, most, clock_timestamp()) ON CONFLICT DO NOTHING;
    SELECT LEAST(most, tokens + EXTRACT(EPOCH FROM clock_timestamp() - counted) * most / 60)
        INTO available FROM rates WHERE caller = who FOR UPDATE;
    UPDATE rates SET tokens = available - (available >= 1)::integer, counted = clock_timestamp()
        WHERE caller = who;
    IF random() < 0.001 THEN
        DELETE FROM rates WHERE counted < clock_timestamp() - interval '10 minutes';
    END IF;
    RETURN GREATEST(0, (1 - available) * 60 / most);
END $$;
CREATE FUNCTION announce_document() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('face_shared', TG_TABLE_SCHEMA);
    RETURN NULL;
END $$;
CREATE TRIGGER document_announced AFTER INSERT OR UPDATE ON documents
    FOR EACH STATEMENT EXECUTE FUNCTION announce_document();
"""

MIGRATIONS: tuple[str, ...] = (_V1, _V2, _V3)
"""Scripts that migrate from version ``i`` to ``i + 1``; append, never edit."""


def migrate(connection: psycopg.Connection, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Migrates a database to the newest schema, in one transaction.

    Servers that start at the same time wait for each other; only the first one migrates.

    Args:
        connection: A connection in autocommit mode.

    Returns:
        The version before the migration; 0 for a new gallery.

    Raises:
        GalleryError: If the gallery was written by a newer program.
    """
    with connection.transaction():
        connection.execute(LOCK)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS gallery_schema (version integer PRIMARY KEY)"
        )
        ((found,),) = connection.execute(
            "SELECT COALESCE(MAX(version), 0) FROM gallery_schema"
        ).fetchall()
        require_known(found, len(migrations))
        for version in range(found, len(migrations)):
            connection.execute(migrations[version])
            connection.execute("INSERT INTO gallery_schema VALUES (%s)", (version + 1,))
    return found


_WRITE_LOCK = "1178690405, hashtext(current_schema())"
LOCK = f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})"
"""Takes the write lock of this schema's gallery, waiting for others; held until the commit."""

HOLD_LOCK = f"SELECT pg_advisory_lock({_WRITE_LOCK})"
RELEASE_LOCK = f"SELECT pg_advisory_unlock({_WRITE_LOCK})"
"""The same lock outside a transaction, for VACUUM."""
