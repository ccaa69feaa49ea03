const silent = 'The tool failed without a message.'

/** What a thrown value says, in words. Never throws, whatever was thrown. */
export function messageOf (thrown: unknown): string {
  try {
    const message = thrown instanceof Error || hasMessage(thrown) ? thrown.message : thrown
    if (typeof message === 'string') return message === '' ? silent : message
    return message === undefined || message === null ? silent : String(message)
  } catch {
    return silent
  }
}

function hasMessage (thrown: unknown): thrown is { message: string } {
  return typeof thrown === 'object' && thrown !== null && typeof (thrown as { message?: unknown }).message === 'string'
}
