import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite'

/** A row as its columns in order. */
export type Row = readonly SQLInputValue[]

/** A statement whose rows are arrays: objects would cost more than what is read. */
export interface Statement {
  run (...values: SQLInputValue[]): { changes: number | bigint }
  get (...values: SQLInputValue[]): Row | undefined
  all (...values: SQLInputValue[]): Row[]
  iterate (...values: SQLInputValue[]): Iterator<Row> & Iterable<Row>
}

/**
 * The connection that everything of a store goes through, with its prepared statements. The file may have to be opened
 * anew under a running store, so nobody else holds on to either.
 */
export class Database {
  #connection: DatabaseSync
  readonly #statements = new Map<string, Statement>()

  constructor (connection: DatabaseSync) {
    this.#connection = connection
  }

  get connection (): DatabaseSync {
    return this.#connection
  }

  /** Goes on with another connection; the one before is the caller's. */
  use (connection: DatabaseSync): void {
    this.#connection = connection
    this.#statements.clear()
  }

  /** A statement that is prepared once. For texts that do not vary. */
  statement (sql: string): Statement {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  prepare (sql: string): Statement {
    const statement: StatementSync = this.#connection.prepare(sql)
    statement.setReturnArrays(true)
    return statement as unknown as Statement
  }

  /** Runs a text of statements that hold a transaction of their own. */
  execute (sql: string): void {
    try {
      this.#connection.exec(sql)
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  /** Runs `work` as one transaction: all of it is committed when this returns, or none of it and this throws. */
  transaction (work: () => void): void {
    this.statement('BEGIN IMMEDIATE').run()
    try {
      work()
      this.statement('COMMIT').run()
    } catch (error) {
      this.#rollBack()
      throw error
    }
  }

  #rollBack (): void {
    try {
      // Where the disk is full or failed, SQLite may have done so itself.
      if (this.#connection.isTransaction) this.statement('ROLLBACK').run()
    } catch {
      // What went wrong first is what is told.
    }
  }
}
