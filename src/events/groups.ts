import type { StoredEvent } from '../store/store.ts'
import { filterKey } from './filter.ts'
import { Group, type SubscribeOptions } from './subscription.ts'

/** The groups that there are: found by what they let through, and by what an event concerns. */
export class Groups {
  readonly #byKey = new Map<string, Group>()
  readonly #open = new Set<Group>()
  /** Groups whose filter names invocations, by each of them: such groups are many, and each event concerns few. */
  readonly #byInvocation = new Map<string, Set<Group>>()
  #privateGroups = 0

  /** The group of subscribers with these options; of this one alone where it may see more than others. */
  of (options: SubscribeOptions): Group {
    const shared = filterKey(options.filter, options.view, options.sight)
    const key = options.reveal === undefined ? shared : `${shared} ${this.#privateGroups++}`
    let group = this.#byKey.get(key)
    if (group === undefined) {
      group = new Group(key, options)
      this.#byKey.set(key, group)
      if (group.invocationIds === undefined) this.#open.add(group)
      for (const id of group.invocationIds ?? []) {
        const groups = this.#byInvocation.get(id) ?? new Set()
        this.#byInvocation.set(id, groups.add(group))
      }
    }
    return group
  }

  /** Calls `visit` with each group that wants `event`. */
  forEach (event: StoredEvent, visit: (group: Group) => void): void {
    for (const group of this.#open) if (group.matches(event)) visit(group)
    const concerned = this.#byInvocation.size === 0 ? undefined : this.#byInvocation.get(event.start.invocationId)
    if (concerned !== undefined) for (const group of concerned) if (group.matches(event)) visit(group)
  }

  /** Forgets a group without members. */
  delete (group: Group): void {
    this.#byKey.delete(group.key)
    this.#open.delete(group)
    for (const id of group.invocationIds ?? []) {
      const groups = this.#byInvocation.get(id)
      groups?.delete(group)
      if (groups?.size === 0) this.#byInvocation.delete(id)
    }
  }
}
